"""Run by test_ray_drivers.py: works on a cluster until it is stopped from outside, or prints in an actor."""

import signal
import sys

from maze_kernel.errors import MazeError
from maze_ray.options import RayOptions
from maze_ray.pool import RayPool
from maze_testing.worker_actors import Probe


class Talks(Probe):
    """Prints, and raises."""

    def talk(self):
        print("a line of the actor")
        print("another one", file=sys.stderr)

    def fail(self):
        raise ValueError("as told")


def main(what, address):
    """Say "ready" when the actors are at work."""
    # A shell starts background jobs with SIGINT ignored, which everything below them inherits.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with RayPool(RayOptions(address=address, cpus_per_worker=0.5)) as pool:
        group = pool.spawn(Talks, 2)
        if what == "talk":
            group.call(1, "talk").result()
            try:
                group.call(1, "fail").result()
            except MazeError as error:
                print(error.render(), file=sys.stderr)
            group.call(1, "sleep", 3.0).result()
            return
        futures = group.call_all("sleep", 3600.0)
        print("ready", flush=True)
        futures[0].result()


if __name__ == "__main__":
    main(*sys.argv[1:])
