import io.grpc.CallOptions;
import io.grpc.ClientInterceptors;
import io.grpc.ClientStreamTracer;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/** gRPC's interop cases with grpc-java. Messages are bytes: the few fields that the cases need are encoded here. */
public final class Client {
  private static final byte[] LARGE = concat(number(2, 314159), payload(3, 271828));
  private static final byte[] ECHO = {10, 11, 10, 11, 10, 11};
  private static boolean failed;

  private static final MethodDescriptor<byte[], byte[]> UNARY = method(MethodType.UNARY, "UnaryCall");
  private static final MethodDescriptor<byte[], byte[]> OUTPUT = method(MethodType.SERVER_STREAMING, "StreamingOutputCall");
  private static final MethodDescriptor<byte[], byte[]> INPUT = method(MethodType.CLIENT_STREAMING, "StreamingInputCall");
  private static final MethodDescriptor<byte[], byte[]> DUPLEX = method(MethodType.BIDI_STREAMING, "FullDuplexCall");

  private final ManagedChannel channel;

  private Client(ManagedChannel channel) {
    this.channel = channel;
  }

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    ManagedChannel channel = NettyChannelBuilder.forAddress("127.0.0.1", port).usePlaintext().keepAliveTime(10, TimeUnit.SECONDS).build();
    new Client(channel).runAll();
    channel.shutdown().awaitTermination(10, TimeUnit.SECONDS);
    System.exit(failed ? 1 : 0);
  }

  private void runAll() {
    run("large_unary", () -> check(unary(CallOptions.DEFAULT, LARGE).length > 314159, "short"));
    run("client_compressed_unary", this::clientCompressedUnary);
    run("server_compressed_unary", this::serverCompressedUnary);
    run("server_streaming", () -> serverStreaming(2000, 10000, 0));
    run("client_streaming", this::clientStreaming);
    run("ping_pong", this::pingPong);
    // The client pings between messages of a server that gets nothing.
    run("slow_stream", () -> serverStreaming(200, 70000, 5000));
    run("timeout_on_sleeping_server", this::timeoutOnSleepingServer);
    run("status_and_metadata", this::statusAndMetadata);
    run("cancel_after_begin", this::cancelAfterBegin);
    run("concurrent_large_unary", this::concurrentLargeUnary);
  }

  private void clientCompressedUnary() {
    expect(Status.Code.INVALID_ARGUMENT, () -> unary(CallOptions.DEFAULT, concat(LARGE, bool(8, true))));
    unary(CallOptions.DEFAULT.withCompression("gzip"), concat(LARGE, bool(8, true)));
    unary(CallOptions.DEFAULT, concat(LARGE, bool(8, false)));
  }

  private void serverCompressedUnary() {
    for (boolean compressed : new boolean[] {true, false}) {
      AtomicLong wire = new AtomicLong();
      ClientStreamTracer tracer = new ClientStreamTracer() {
        @Override
        public void inboundWireSize(long bytes) {
          wire.addAndGet(bytes);
        }
      };
      CallOptions options = CallOptions.DEFAULT.withStreamTracerFactory(new ClientStreamTracer.Factory() {
        @Override
        public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
          return tracer;
        }
      });
      check(unary(options, concat(LARGE, bool(6, compressed))).length > 314159, "short");
      check((wire.get() < 100000) == compressed, wire.get() + " bytes came");
    }
  }

  private void serverStreaming(int count, int size, int intervalMicros) {
    byte[] request = new byte[0];
    for (int i = 0; i < count; i++) {
      request = concat(request, parameters(size, intervalMicros));
    }
    int got = 0;
    var responses = ClientCalls.blockingServerStreamingCall(channel, OUTPUT, CallOptions.DEFAULT, request);
    while (responses.hasNext()) {
      check(responses.next().length > size, "short");
      got++;
    }
    check(got == count, got + " responses");
  }

  private void clientStreaming() throws Exception {
    CompletableFuture<byte[]> sum = new CompletableFuture<>();
    var call = channel.newCall(INPUT, CallOptions.DEFAULT.withCompression("gzip"));
    var requests = ClientCalls.asyncClientStreamingCall(call, observer(sum::complete, sum::completeExceptionally));
    for (int i = 0; i < 500; i++) {
      requests.onNext(payload(1, 27182));
    }
    requests.onCompleted();
    check(Arrays.equals(sum.get(60, TimeUnit.SECONDS), number(1, 500 * 27182)), "another sum");
  }

  private void pingPong() throws Exception {
    var pongs = new LinkedBlockingQueue<Object>();
    var pings = ClientCalls.asyncBidiStreamingCall(channel.newCall(DUPLEX, CallOptions.DEFAULT), observer(pongs::add, pongs::add));
    for (int i = 0; i < 3000; i++) {
      pings.onNext(concat(parameters(5000, 0), payload(3, 100)));
      Object pong = pongs.poll(60, TimeUnit.SECONDS);
      check(pong instanceof byte[] bytes && bytes.length > 5000, i + ": " + pong);
    }
    pings.onCompleted();
  }

  private void timeoutOnSleepingServer() {
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(50, TimeUnit.MILLISECONDS);
    expect(Status.Code.DEADLINE_EXCEEDED, () -> ClientCalls.blockingServerStreamingCall(channel, OUTPUT, options, parameters(1, 5_000_000)).next());
  }

  private void statusAndMetadata() {
    var initial = Metadata.Key.of("x-grpc-test-echo-initial", Metadata.ASCII_STRING_MARSHALLER);
    var trailing = Metadata.Key.of("x-grpc-test-echo-trailing-bin", Metadata.BINARY_BYTE_MARSHALLER);
    Metadata sent = new Metadata();
    sent.put(initial, "test_initial_metadata_value");
    sent.put(trailing, ECHO);
    AtomicReference<Metadata> headers = new AtomicReference<>();
    AtomicReference<Metadata> trailers = new AtomicReference<>();
    var attach = MetadataUtils.newAttachHeadersInterceptor(sent);
    var capture = MetadataUtils.newCaptureMetadataInterceptor(headers, trailers);
    ClientCalls.blockingUnaryCall(ClientInterceptors.intercept(channel, attach, capture), UNARY, CallOptions.DEFAULT, number(2, 3));
    check("test_initial_metadata_value".equals(headers.get().get(initial)), "initial metadata");
    check(Arrays.equals(ECHO, trailers.get().get(trailing)), "trailing metadata");
    byte[] message = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n".getBytes(StandardCharsets.UTF_8);
    Status status = expect(Status.Code.UNKNOWN, () -> unary(CallOptions.DEFAULT, bytes(7, concat(number(1, 2), bytes(2, message)))));
    check(Arrays.equals(message, status.getDescription().getBytes(StandardCharsets.UTF_8)), "message");
    var missing = method(MethodType.UNARY, "UnimplementedCall");
    expect(Status.Code.UNIMPLEMENTED, () -> ClientCalls.blockingUnaryCall(channel, missing, CallOptions.DEFAULT, new byte[0]));
  }

  private void cancelAfterBegin() throws Exception {
    CompletableFuture<byte[]> sum = new CompletableFuture<>();
    var call = channel.newCall(INPUT, CallOptions.DEFAULT);
    ClientCalls.asyncClientStreamingCall(call, observer(sum::complete, sum::completeExceptionally));
    call.cancel("enough", null);
    try {
      sum.get(10, TimeUnit.SECONDS);
      check(false, "no error");
    } catch (ExecutionException error) {
      check(Status.fromThrowable(error).getCode() == Status.Code.CANCELLED, error.toString());
    }
  }

  private void concurrentLargeUnary() throws Exception {
    var responses = new ArrayList<Future<byte[]>>();
    for (int i = 0; i < 200; i++) {
      responses.add(ClientCalls.futureUnaryCall(channel.newCall(UNARY, CallOptions.DEFAULT), LARGE));
    }
    for (Future<byte[]> response : responses) {
      check(response.get(120, TimeUnit.SECONDS).length > 314159, "short");
    }
  }

  // What the cases use.

  private interface Case {
    void run() throws Exception;
  }

  private static void run(String name, Case body) {
    try {
      body.run();
      System.out.println(name + ": PASS");
    } catch (Exception | AssertionError error) {
      failed = true;
      System.out.println(name + ": FAIL " + error + " " + error.getCause());
    }
  }

  private static void check(boolean fact, String what) {
    if (!fact) {
      throw new AssertionError(what);
    }
  }

  private static Status expect(Status.Code code, Runnable call) {
    try {
      call.run();
    } catch (StatusRuntimeException error) {
      check(error.getStatus().getCode() == code, error.toString());
      return error.getStatus();
    }
    throw new AssertionError("no error; " + code + " was expected");
  }

  private byte[] unary(CallOptions options, byte[] request) {
    return ClientCalls.blockingUnaryCall(channel, UNARY, options, request);
  }

  private static StreamObserver<byte[]> observer(Consumer<byte[]> next, Consumer<Throwable> error) {
    return new StreamObserver<>() {
      @Override
      public void onNext(byte[] message) {
        next.accept(message);
      }

      @Override
      public void onError(Throwable failure) {
        error.accept(failure);
      }

      @Override
      public void onCompleted() {}
    };
  }

  // Protobuf's encoding.

  private static MethodDescriptor<byte[], byte[]> method(MethodType type, String name) {
    var bytes = new MethodDescriptor.Marshaller<byte[]>() {
      @Override
      public InputStream stream(byte[] message) {
        return new ByteArrayInputStream(message);
      }

      @Override
      public byte[] parse(InputStream stream) {
        try {
          return stream.readAllBytes();
        } catch (IOException error) {
          throw new IllegalStateException(error);
        }
      }
    };
    return MethodDescriptor.newBuilder(bytes, bytes).setType(type).setFullMethodName("grpc.testing.TestService/" + name).build();
  }

  private static byte[] concat(byte[]... parts) {
    ByteArrayOutputStream whole = new ByteArrayOutputStream();
    for (byte[] part : parts) {
      whole.writeBytes(part);
    }
    return whole.toByteArray();
  }

  private static byte[] varint(long value) {
    ByteArrayOutputStream encoded = new ByteArrayOutputStream();
    for (; value > 127; value >>>= 7) {
      encoded.write((int) (value & 127 | 128));
    }
    encoded.write((int) value);
    return encoded.toByteArray();
  }

  private static byte[] number(int field, long value) {
    return concat(varint(field << 3), varint(value));
  }

  private static byte[] bytes(int field, byte[] content) {
    return concat(varint(field << 3 | 2), varint(content.length), content);
  }

  private static byte[] payload(int field, int size) {
    return bytes(field, bytes(2, new byte[size]));
  }

  private static byte[] bool(int field, boolean value) {
    return bytes(field, value ? number(1, 1) : new byte[0]);
  }

  private static byte[] parameters(int size, int intervalMicros) {
    return bytes(2, concat(number(1, size), number(2, intervalMicros)));
  }
}
