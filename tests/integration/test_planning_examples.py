"""Job shops and routing of `examples/`: the simulations by their definitions, and what is learnt in them."""

import copy
import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest

from maze_suite import RunContext
from maze_testing.envs import check_env

EXAMPLES = Path(__file__).parents[2] / "examples"

# Plans that an exact solver (OR-tools' CP-SAT) proved to be the best: the job of each operation by its start, and
# ".machine" in the shop where there is a choice.
BEST = {
    "ft06": (55, "1 2 0 2 0 1 3 2 1 3 4 5 0 5 2 5 0 3 4 4 2 1 5 3 2 3 1 4 0 3 5 1 4 0 5 4"),
    "ft10": (
        930,
        "1 5 3 8 3 5 5 6 0 9 5 6 4 3 7 8 1 5 6 3 9 4 7 5 4 8 2 4 6 6 9 1 3 5 3 4 8 9 7 2 5 3 9 6 8 1 4 6 0 7 "
        "2 4 5 5 8 8 9 7 6 0 4 0 2 7 0 1 8 4 9 2 1 3 0 0 6 8 6 2 7 2 1 7 8 0 9 1 2 3 7 9 0 3 1 7 2 4 1 9 0 2",
    ),
    "mk01": (
        40,
        "0.0 1.1 4.4 9.5 6.5 9.2 6.3 7.5 0.4 4.0 8.5 1.2 3.0 4.1 7.5 1.0 0.2 9.4 1.3 8.4 2.1 5.5 7.0 0.0 0.2 4.0 9.5 "
        "0.2 9.3 8.5 7.1 5.0 2.2 4.3 9.0 6.5 3.1 8.0 5.2 2.0 1.0 7.3 6.0 8.5 3.2 5.1 2.2 3.4 4.5 8.3 2.0 3.2 5.0 5.0 "
        "6.2",
    ),
}


@pytest.fixture
def module(monkeypatch):
    """A module of `examples/`."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def play(env, decide, seed=0):
    """One episode; returns its rewards, by flat step."""
    observation, _ = env.reset(seed=seed)
    rewards, is_over = [0.0], False
    while not is_over:
        observation, reward, is_over, _, _ = env.step(decide(env, observation))
        rewards[-1] += reward
        if env.is_flat_step_end():
            rewards.append(0.0)
    return rewards[:-1]


def at_random(rng):
    """A policy that draws among what the masks allow."""

    def decide(env, observation):
        (head,) = env.structured_spaces.action[env.actor_id()[0]]
        (n,) = (space.n for space in env.structured_spaces.action[env.actor_id()[0]].values())
        allowed = observation.get(f"{head}_mask", np.ones(n))
        return {head: int(rng.choice(np.flatnonzero(allowed)))}

    return decide


@pytest.mark.parametrize("instance", BEST)
def test_the_best_plan_of_a_shop_is_reached_by_its_decisions(module, instance):
    makespan, order = BEST[instance]
    env = module("job_shop").JobShop(instance=instance)
    env.reset()
    total, is_over = 0.0, False
    for job, _, machine in (entry.partition(".") for entry in order.split()):
        assert env.actor_id()[0] == "job"
        _, reward, is_over, _, info = env.step({"go_on": int(job)})
        total += reward
        if env.actor_id()[0] == "machine":
            _, reward, is_over, _, info = env.step({"place": int(machine)})
            total += reward
    assert is_over
    assert info["makespan"] == makespan
    assert total == pytest.approx(-makespan)


@pytest.mark.parametrize("instance", BEST)
def test_plans_keep_the_order_of_jobs_and_one_operation_a_machine(module, instance):
    env = module("job_shop").JobShop(instance=instance)
    rewards = play(env, at_random(np.random.default_rng(3)))
    plan = env.get_maze_state()
    assert len(rewards) == len(plan.entries) == sum(map(len, env.jobs))
    assert sum(rewards) == pytest.approx(-max(end for *_, end in plan.entries))
    for job, operations in enumerate(env.jobs):
        own = [entry for entry in plan.entries if entry[0] == job]
        assert [n for _, n, *_ in own] == list(range(len(operations)))
        assert all(end - start == operations[n][machine] for _, n, machine, start, end in own)
        assert all(before[4] <= after[3] for before, after in itertools.pairwise(own))
    for machine in {entry[2] for entry in plan.entries}:
        own = [entry for entry in plan.entries if entry[2] == machine]
        assert all(before[4] <= after[3] for before, after in itertools.pairwise(own))


def test_a_tour_serves_everybody_within_its_capacity(module):
    env = module("routing").Routing(n_customers=9, capacity=12)
    way = []

    def decide(env, observation):
        tour = env.get_maze_state()
        action = at_random(rng)(env, observation)
        if "next" in action:
            assert tour.is_open[action["next"]]
            by_depot = tour.is_at_depot or tour.demands[action["next"]] > tour.load
            way.append([action["next"], by_depot])
        else:
            way[-1][1] = action["way"] == 1
        return action

    for seed in range(20):
        rng, way[:] = np.random.default_rng(seed), []
        rewards = play(env, decide, seed)
        tour = env.get_maze_state()
        assert len(rewards) == 9
        assert sorted(customer for customer, _ in way) == list(range(9))
        starts = [i for i, (_, by_depot) in enumerate(way) if by_depot]
        trips = [[customer for customer, _ in way[a:b]] for a, b in itertools.pairwise([*starts, len(way)])]
        assert all(tour.demands[trip].sum() <= 12 for trip in trips)
        assert sum(rewards) == pytest.approx(-sum(length(tour, trip) for trip in trips))


def length(tour, trip):
    """From the depot along a trip and back."""
    places = [tour.depot, *tour.customers[list(trip)], tour.depot]
    return sum(float(np.linalg.norm(a - b)) for a, b in itertools.pairwise(places))


def test_the_decisions_of_routing_reach_the_shortest_tours(module):
    env = module("routing").Routing(n_customers=4, capacity=14)
    for seed in range(12):
        env.reset(seed=seed)
        tour = copy.deepcopy(env.get_maze_state())
        best = min(
            sum(length(tour, trip) for trip in trips)
            for order in itertools.permutations(range(4))
            for trips in cut(order)
            if all(tour.demands[list(trip)].sum() <= 14 for trip in trips)
        )
        assert shortest(env) == pytest.approx(best)


def cut(order):
    """All ways to divide a sequence into trips."""
    for inner in range(2 ** (len(order) - 1)):
        ends = [i + 1 for i in range(len(order) - 1) if inner >> i & 1]
        yield [order[a:b] for a, b in itertools.pairwise([0, *ends, len(order)])]


def shortest(env):
    """The least distance of all courses from here."""
    waiting = np.flatnonzero(env.get_maze_state().is_open)
    choices = [{"way": i} for i in range(2)] if env.actor_id()[0] == "route" else [{"next": i} for i in waiting]
    found = []
    for choice in choices:
        branch = copy.deepcopy(env)
        _, reward, is_over, _, _ = branch.step(choice)
        found.append((0.0 if is_over else shortest(branch)) - reward)
    return min(found)


def test_both_keep_the_contract(module):
    check_env(module("job_shop").JobShop)
    check_env(lambda: module("job_shop").JobShop(instance="ft06"))
    check_env(module("routing").Routing)


def test_a_network_that_points_knows_no_order(module):
    import torch

    network = module("pointing_network").Policy(
        obs_shapes={"things": (5, 3), "things_mask": (5,), "around": (2,)},
        action_logits_shapes={"which": (5,), "whether": (2,)},
        things="things",
    )
    observation = {"things": torch.rand(4, 5, 3), "things_mask": torch.ones(4, 5), "around": torch.rand(4, 2)}
    observation["things_mask"][:, 3] = 0.0
    order = torch.tensor([2, 0, 4, 1, 3])
    turned = {name: x[:, order] if name != "around" else x for name, x in observation.items()}
    logits, after = network(observation), network(turned)
    torch.testing.assert_close(after["which"], logits["which"][:, order])
    torch.testing.assert_close(after["whether"], logits["whether"])
    hidden = {**observation, "things": observation["things"].clone()}
    hidden["things"][:, 3] = 9.0  # what is marked as absent is not seen
    changed = network(hidden)
    torch.testing.assert_close(changed["whether"], logits["whether"])
    torch.testing.assert_close(changed["which"][:, :3], logits["which"][:, :3])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [("job_shop", 110), ("routing", 40)])
def test_an_example_trains_and_plays(tmp_path, name, n):
    overrides = {"trainer.epoch_length": 1, "trainer.n_rollout_steps": n, "vector.n_envs": 2}
    context = RunContext(
        experiment=EXAMPLES / f"{name}_ppo.toml", overrides=overrides, run_dir=tmp_path / "run", silent=True
    )
    context.train(n_epochs=1)
    trained = context.rollout(2).summary["reward"]["mean"]
    rules = {"job_shop": "MostWorkLeft", "routing": "NearestFirst"}
    ruled = context.rollout(2, policy=f"{name}:{rules[name]}").summary["reward"]["mean"]
    assert trained < 0
    assert ruled < 0


@pytest.mark.learning
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "rule"), [("job_shop", "EarliestStart"), ("routing", "NearestFirst")])
def test_a_rule_of_the_books_is_beaten(tmp_path, name, rule):
    context = RunContext(
        experiment=EXAMPLES / f"{name}_ppo.toml",
        overrides={"trainer.max_env_steps": 60_000, "evaluation.every_epochs": 2},
        run_dir=tmp_path / "run",
        silent=True,
    )
    context.train()
    n = {"job_shop": 1, "routing": 200}[name]
    mean = {
        who: context.rollout(n, **choice).summary["reward"]["mean"]
        for who, choice in {"learnt": {}, "rule": {"policy": f"{name}:{rule}"}}.items()
    }
    assert mean["learnt"] > mean["rule"]
