"""What reads into memory for a connection passes on everything else that happens to the socket, until it is closed."""

import unittest.mock

from typing_extensions import override

from naiad.protocol.transport.buffer_reader import BufferReader, SocketEvents


class Reader(BufferReader[SocketEvents]):
    """One that reads into memory of its own."""

    @override
    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(8)

    @override
    def buffer_updated(self, nbytes: int) -> None:
        raise NotImplementedError


def test_what_happens_to_the_socket_is_the_connections() -> None:
    connection = unittest.mock.create_autospec(SocketEvents, instance=True)
    connection.eof_received.return_value = True
    reader = Reader(connection)
    reader.pause_writing()
    reader.resume_writing()
    assert reader.eof_received() is True
    error = ConnectionResetError()
    reader.connection_lost(error)
    assert connection.mock_calls == [
        unittest.mock.call.pause_writing(),
        unittest.mock.call.resume_writing(),
        unittest.mock.call.eof_received(),
        unittest.mock.call.connection_lost(error),
    ]


def test_after_the_end_it_knows_the_connection_no_more() -> None:
    connection = unittest.mock.create_autospec(SocketEvents, instance=True)
    reader = Reader(connection)
    reader.connection_lost(None)
    connection.reset_mock()
    reader.connection_lost(None)
    reader.pause_writing()
    reader.resume_writing()
    assert reader.eof_received() is None
    connection.assert_not_called()
    assert connection.mock_calls == []
