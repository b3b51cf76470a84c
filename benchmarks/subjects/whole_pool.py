"""A whole program: start, one worker, one answer, a clean end."""

from concurrent.futures import ProcessPoolExecutor


def _echo(value: int) -> int:
    return value


if __name__ == "__main__":
    with ProcessPoolExecutor(1) as pool:
        assert pool.submit(_echo, 1).result() == 1
