"""Deliveries from a depot: the capacitated vehicle routing problem, in one or two decisions a customer.

Instances are drawn as in Nazari et al. (2018), "Reinforcement Learning for Solving the Vehicle Routing Problem": depot
and customers uniformly in the unit square, demands uniformly from 1 to 9, a capacity of 30 for 20 customers.
"""

from __future__ import annotations

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID
from maze_suite import FlatEnv, Heuristic, StructuredSpaces

MAX_DEMAND = 9
DIRECTLY, BY_DEPOT = 0, 1


@attrs.define(eq=False)
class Tour:
    """One instance, and how far its vehicle has come.

    Attributes:
        depot: (2,).
        customers: where they are, (N, 2).
        demands: of each, (N,).
        is_open: whether a customer still waits, (N,).
        place: where the vehicle is, (2,).
        load: what it has left.
        is_at_depot: whether it has just been filled.
        target: the customer that it serves next, while the way there is not decided.
    """

    depot: np.ndarray
    customers: np.ndarray
    demands: np.ndarray
    is_open: np.ndarray
    place: np.ndarray
    load: int
    is_at_depot: bool = True
    target: int | None = None

    @classmethod
    def draw(cls, rng: np.random.Generator, n_customers: int, capacity: int) -> Tour:
        """A new instance, the vehicle full and in the depot."""
        places = rng.random((n_customers + 1, 2))
        demands = rng.integers(1, MAX_DEMAND + 1, n_customers)
        return cls(places[0], places[1:], demands, np.ones(n_customers, np.bool_), places[0], capacity)

    def drive(self, place: np.ndarray) -> float:
        """Go there; returns the distance."""
        distance = float(np.hypot(*(place - self.place)))
        self.place = place
        return distance


class Routing(FlatEnv):
    """Serve all customers; the reward is minus the distance driven.

    "customer" says who is next, "route" whether the vehicle goes there directly or by the depot, where it is filled.
    Nobody asks for the route where there is no choice: from the depot, and to a customer who wants more than is left.

    Args:
        n_customers: N.
        capacity: of the vehicle.
    """

    def __init__(self, *, n_customers: int = 20, capacity: int = 30) -> None:
        self.n_customers, self.capacity = n_customers, capacity
        seen = {
            "customers": spaces.Box(-2.0, 2.0, (n_customers, 8), np.float32),
            "customers_mask": spaces.MultiBinary(n_customers),  # who waits: marks the rows of `customers`
            "vehicle": spaces.Box(-2.0, 2.0, (4,), np.float32),
        }
        self.structured_spaces = StructuredSpaces(
            observation={
                "customer": spaces.Dict({**seen, "next_mask": spaces.MultiBinary(n_customers)}),
                "route": spaces.Dict({**seen, "target": spaces.Box(-2.0, 2.0, (4,), np.float32)}),
            },
            action={
                "customer": spaces.Dict(next=spaces.Discrete(n_customers)),
                "route": spaces.Dict(way=spaces.Discrete(2)),
            },
            agent_counts={"customer": 1, "route": 1},
        )
        self._rng = np.random.default_rng()

    def actor_id(self) -> ActorID:
        """Who decides next."""
        return ActorID("customer" if self.tour.target is None else "route", 0)

    def is_flat_step_end(self) -> bool:
        """A step of time is one customer served."""
        return self.tour.target is None

    def reset(self, *, seed=None, options=None):
        """Draw an instance."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.tour = Tour.draw(self._rng, self.n_customers, self.capacity)
        return self._observe(), {}

    def step(self, action):
        """Choose the customer; then drive there, and home after the last one."""
        tour = self.tour
        if tour.target is None:
            tour.target = int(action["next"])
            fits = tour.demands[tour.target] <= tour.load
            if fits and not tour.is_at_depot:
                return self._observe(), 0.0, False, False, {}
            way = DIRECTLY if fits else BY_DEPOT
        else:
            way = int(action["way"])
        distance = 0.0
        if way == BY_DEPOT:
            distance += tour.drive(tour.depot)
            tour.load = self.capacity
        distance += tour.drive(tour.customers[tour.target])
        tour.load -= int(tour.demands[tour.target])
        tour.is_open[tour.target] = tour.is_at_depot = False
        tour.target = None
        is_over = not tour.is_open.any()
        if is_over:
            distance += tour.drive(tour.depot)
        return self._observe(), -distance, is_over, False, {}

    def get_maze_state(self) -> Tour:
        """The tour as it is now."""
        return self.tour

    def _observe(self):
        tour, load = self.tour, self.tour.load / self.capacity
        away, home = tour.customers - tour.place, tour.customers - tour.depot
        demands, fits = tour.demands / self.capacity, tour.demands <= tour.load
        columns = (away, np.hypot(*away.T), home, np.hypot(*home.T), demands, fits)
        observation = {
            "customers": np.column_stack(columns).astype(np.float32),
            "customers_mask": tour.is_open.astype(np.int8),
            "vehicle": np.array([*(tour.depot - tour.place), load, tour.is_open.mean()], np.float32),
        }
        if tour.target is None:
            is_over = not tour.is_open.any()
            observation["next_mask"] = (tour.is_open | is_over).astype(np.int8)
        else:
            observation["target"] = observation["customers"][tour.target, [0, 1, 2, 6]]
        return observation


class NearestFirst(Heuristic):
    """Serve the nearest customer whose demand fits, by the depot only where none does."""

    def act_one(self, observation, moment):
        """From the observation alone."""
        if moment.policy_key == "route":
            return {"way": DIRECTLY}
        customers = observation["customers"]
        distances = customers[:, 2] + np.where(customers[:, 7] > 0.0, 0.0, 10.0)
        return {"next": int(np.argmin(np.where(observation["next_mask"], distances, np.inf)))}
