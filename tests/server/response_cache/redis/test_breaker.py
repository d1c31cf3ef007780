"""The circuit breaker, with numbers."""

from naiad.response_cache.redis.breaker import Circuit, CircuitBreaker

SECOND = 1_000_000_000


def test_tries_come_ever_later_up_to_half_a_minute_and_the_first_failure_alone_is_news() -> None:
    breaker = CircuitBreaker()
    states = [breaker.state]
    assert not breaker.responded()
    states.append(breaker.state)
    assert states == [Circuit.OPEN, Circuit.CLOSED]
    now, waits, news = 100 * SECOND, [], []
    for _ in range(8):
        news.append(breaker.failed(now))
        waits.append((breaker.retry_at_ns - now) / SECOND)
        now = breaker.retry_at_ns
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert news == [True] + [False] * 7
    assert breaker.state is Circuit.OPEN


def test_after_a_response_waits_begin_again_and_the_next_failure_is_news() -> None:
    breaker = CircuitBreaker()
    breaker.failed(0)
    breaker.failed(0)
    assert breaker.responded()
    assert not breaker.responded()
    assert breaker.failed(10 * SECOND)
    assert breaker.retry_at_ns == 10.5 * SECOND
