"""Rollouts of structured environments hold what each environment alone goes through, whatever steps them."""

import functools

import numpy as np
import pytest

from maze_kernel.config.load import select
from maze_kernel.contracts.model import ModelContext
from maze_kernel.errors import EnvError
from maze_kernel.loader import Kernel
from maze_processes.remote_collector import RemoteCollector
from maze_processes.subprocess_vector import SubprocessVectorEnv
from maze_runtime.env.batch_guard import BatchGuard
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.rollout.collector import Collector, collector_for, make_buffer
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_testing.structured_environments import ChangingTeam, DoorAndKey, Hierarchy, Pair

ENVIRONMENTS = [DoorAndKey, functools.partial(DoorAndKey, divided=True, n_steps=3), Pair, ChangingTeam, Hierarchy]
N_STEPS, N_ENVS, N_ROLLOUTS = 9, 3, 4
SEEDS = [[seed, seed + 10, seed + 20] for seed in range(N_ENVS)]


def shift(policy_key):
    return int(policy_key in ("key", "worker"))


class Table:
    """Acts by a fixed, odd rule on what it sees, so that good and bad decisions mix."""

    def act(self, policy_key, group, *, deterministic=False):
        return {"choice": (group.observation["shown"].argmax(axis=1) + shift(policy_key) + group.agent_id) % 3}

    def begin_episodes(self, env_index):
        pass


def decisions_of(make, seeds):
    """One environment alone: (actor, observation, action, reward, flat step end, done, terminated, truncated)."""
    env, seeds = make(), iter(seeds)
    observation, _ = env.reset(seed=next(seeds))
    while True:
        actor = env.actor_id()
        shown = observation["shown"].copy()
        choice = (int(shown.argmax()) + shift(actor.step_key) + actor.agent_id) % 3
        observation, reward, terminated, truncated, _ = env.step({"choice": choice})
        yield (actor, shown, choice, reward, env.is_flat_step_end(), env.is_actor_done(), terminated, truncated)
        if terminated or truncated:
            observation, _ = env.reset(seed=next(seeds, None))


def collector_of(vector_env):
    collector = Collector(BatchGuard(vector_env), Table())
    collector.reset(SEEDS)
    return collector


def buffer_of(make, n_envs=N_ENVS, n_steps=N_STEPS):
    return make_buffer(make().structured_spaces, n_steps, n_envs)


@pytest.mark.parametrize("make", ENVIRONMENTS, ids=["door", "divided", "pair", "team", "hierarchy"])
def test_a_rollout_is_what_each_environment_alone_goes_through(make):
    collector, buffer = collector_of(SequentialVectorEnv([make] * N_ENVS)), buffer_of(make)
    alone = [decisions_of(make, seeds) for seeds in SEEDS]
    n_flat_steps = 0
    for _ in range(N_ROLLOUTS):
        collector.collect(buffer)
        for t in range(N_STEPS):
            for n in range(N_ENVS):
                actor, shown, choice, reward, *flags = next(alone[n])
                key = buffer.policy_keys[buffer.key_index[t, n]]
                assert (key, buffer.agent_id[t, n]) == actor
                row = buffer.row[t, n]
                np.testing.assert_array_equal(buffer.tables[key].observation["shown"][row], shown)
                assert buffer.tables[key].action["choice"][row] == choice
                assert buffer.reward[t, n] == reward
                seen = (buffer.flat_step_end, buffer.actor_done, buffer.terminated, buffer.truncated)
                assert [array[t, n] for array in seen] == flags
                n_flat_steps += flags[0]
        found = sorted((step, env) for key in buffer.policy_keys for step, env in _places(buffer.decisions(key)))
        assert found == [(t, n) for t in range(N_STEPS) for n in range(N_ENVS)]
    assert collector.env_steps == n_flat_steps
    for n, rest in enumerate(alone):
        actor, shown, *_ = next(rest)
        key = buffer.policy_keys[buffer.last_key_index[n]]
        assert (key, buffer.last_agent_id[n]) == actor
        np.testing.assert_array_equal(buffer.last_observation[key]["shown"][n], shown)


def _places(decisions):
    return zip(decisions.step.tolist(), decisions.env_index.tolist(), strict=True)


def test_a_copy_by_environment_has_the_same_decisions_in_slices_of_its_tables():
    collector, buffer, copy = (
        collector_of(SequentialVectorEnv([Hierarchy] * N_ENVS)),
        *(buffer_of(Hierarchy) for _ in range(2)),
    )
    for _ in range(N_ROLLOUTS):
        collector.collect(buffer)
        buffer.copy_by_environment(copy.columns())
        np.testing.assert_array_equal(copy.row, np.arange(N_ENVS) * N_STEPS + np.arange(N_STEPS)[:, None])
        for name in buffer.time_major:
            if name != "row":
                np.testing.assert_array_equal(getattr(copy, name), getattr(buffer, name))
        for key in buffer.policy_keys:
            one, other = buffer.decisions(key), copy.decisions(key)
            for kind in ("observation", "action"):
                for name, array in getattr(buffer.tables[key], kind).items():
                    np.testing.assert_array_equal(getattr(copy.tables[key], kind)[name][other.row], array[one.row])
            np.testing.assert_array_equal(copy.last_observation[key]["shown"], buffer.last_observation[key]["shown"])


def test_actor_rewards_replace_those_of_their_flat_step():
    """Nine decisions a rollout cut every second flat step in two; the later half still gets its share."""
    make = functools.partial(DoorAndKey, divided=True)
    collector, buffer = collector_of(SequentialVectorEnv([make] * N_ENVS)), buffer_of(make)
    paid = 0.0
    for _ in range(N_ROLLOUTS):
        collector.collect(buffer)
        ends = buffer.flat_step_end
        np.testing.assert_array_equal(buffer.actor_reward[ends], buffer.reward[ends] / 2)
        within = ~ends
        within[-1] = False
        following = np.roll(buffer.reward, -1, axis=0)
        np.testing.assert_array_equal(buffer.actor_reward[within], following[within] / 2)
        paid += buffer.reward.sum()
    assert paid > 0


def test_a_wrong_number_of_actor_rewards_is_an_error():
    class Wrong(DoorAndKey):
        def get_actor_rewards(self):
            return np.zeros(3, np.float32)

    collector = collector_of(SequentialVectorEnv([Wrong] * N_ENVS))
    with pytest.raises(EnvError, match="one reward a sub-step") as error:
        collector.collect(buffer_of(Wrong))
    assert error.value.received == "shape (3,)"
    assert error.value.expected.startswith("(2,)")


class CutHierarchy(Hierarchy):
    """Truncated after four decisions, wherever in a flat step that is."""

    def reset(self, **arguments):
        self.n_decisions = 0
        return super().reset(**arguments)

    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        self.n_decisions += 1
        return observation, reward, terminated, self.n_decisions == 4, info


def test_a_cut_episode_keeps_who_would_have_decided_next():
    collector = collector_of(SequentialVectorEnv([CutHierarchy] * N_ENVS))
    buffer = buffer_of(CutHierarchy)
    collector.collect(buffer)
    assert {step for step, _, _ in buffer.truncations} == {3, 7}
    for step, envs, final in buffer.truncations:
        assert buffer.truncated[step, envs].all()
        for env, shown in zip(envs, final.observation["shown"], strict=True):
            single = CutHierarchy()
            seeds = SEEDS[env][step // 4]
            observation, _ = single.reset(seed=seeds)
            for t in range(step - 3, step + 1):
                key = buffer.policy_keys[buffer.key_index[t, env]]
                observation, *_ = single.step({"choice": buffer.tables[key].action["choice"][buffer.row[t, env]]})
            assert single.actor_id().step_key == final.policy_key
            np.testing.assert_array_equal(observation["shown"], shown)


def model_of(make):
    kernel = Kernel.installed()
    chosen = select(kernel, "model", {"use": "auto", "hidden_units": [8]})
    return kernel.catalog.build(chosen, ModelContext(spaces=make().structured_spaces, catalog=kernel.catalog, seed=3))


def same(whole, part, rows):
    """The columns and table rows of a slice of environments."""
    for name in ("reward", "actor_reward", "terminated", "truncated", "flat_step_end", "actor_done", "key_index"):
        np.testing.assert_array_equal(getattr(whole, name)[:, rows], getattr(part, name))
    for key in whole.policy_keys:
        ours, theirs = whole.decisions(key), part.decisions(key)
        chosen = (ours.env_index >= rows.start) & (ours.env_index < rows.stop)
        for kind in ("observation", "action"):
            for name, array in getattr(whole.tables[key], kind).items():
                np.testing.assert_array_equal(
                    array[ours.row[chosen]], getattr(part.tables[key], kind)[name][theirs.row]
                )
        np.testing.assert_array_equal(ours.agent_id[chosen], theirs.agent_id)
    np.testing.assert_array_equal(whole.last_key_index[rows], part.last_key_index)


@pytest.mark.slow
@pytest.mark.parametrize("make", [ChangingTeam, CutHierarchy])
def test_workers_that_collect_alone_give_the_rollouts_of_their_slices(make):
    model, seeds = model_of(make), [[seed] for seed in range(N_ENVS)]
    batch = SubprocessVectorEnv([make] * N_ENVS, 2)
    remote = collector_for(BatchGuard(batch), NetworkPolicy(model, 7), FlatParameters(model), N_STEPS)
    assert isinstance(remote, RemoteCollector)
    remote.reset(seeds)
    slices = []
    for first, last, seed in zip((0, 1), (1, N_ENVS), NetworkPolicy(model, 7).draw_seeds(2), strict=True):
        own = Collector(BatchGuard(SequentialVectorEnv([make] * (last - first))), NetworkPolicy(model, seed))
        own.reset(seeds[first:last])
        slices.append((slice(first, last), own, buffer_of(make, last - first)))
    whole = buffer_of(make)
    for _ in range(2):
        remote.collect(whole)
        truncations = []
        for rows, collector, part in slices:
            collector.collect(part)
            same(whole, part, rows)
            truncations += [(step, (index + rows.start).tolist()) for step, index, _ in part.truncations]
        assert [(step, index.tolist()) for step, index, _ in whole.truncations] == truncations
    assert remote.env_steps == sum(collector.env_steps for _, collector, _ in slices)
    batch.close()


@pytest.mark.slow
def test_processes_that_are_stepped_give_the_same_rollouts():
    buffers = []
    for batch in (SequentialVectorEnv([Hierarchy] * N_ENVS), SubprocessVectorEnv([Hierarchy] * N_ENVS, 2)):
        collector, buffer = collector_of(batch), buffer_of(Hierarchy)
        for _ in range(2):
            collector.collect(buffer)
        buffers.append(buffer)
        batch.close()
    same(*buffers, slice(0, N_ENVS))
