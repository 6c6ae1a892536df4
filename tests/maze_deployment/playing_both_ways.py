"""The two ways of playing with a policy: rollouts, and an agent that is asked."""

import numpy as np

from maze_kernel.config.load import select
from maze_runtime.playing import players as playing
from maze_runtime.rollout.episodes import run_episodes
from maze_runtime.rollout.policy_seeds import policy_seed, seed_policy
from maze_runtime.run.assembly import Assembly


class Recording:
    """A policy that notes what it saw and what it did."""

    def __init__(self, policy):
        self.policy, self.log = policy, []

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def act(self, policy_key, group, *, deterministic=False):
        actions = self.policy.act(policy_key, group, deterministic=deterministic)
        seen = {name: np.array(array) for name, array in group.observation.items()}
        self.log.append((policy_key, seen, {name: np.array(array) for name, array in actions.items()}))
        return actions


def rolled_out(context, seeds, *, deterministic=True, policy=None):
    """The decisions of rollouts, one list an episode, and what they were made of."""
    if policy is None:
        checkpoint = playing.load_checkpoint(context.run_dir, "best")
        make = playing.TrainedPolicy(context.loaded, context.kernel, playing.weights_of(checkpoint))
        states = checkpoint.transforms
    else:
        states = None
        selection = select(context.kernel, "policy", policy)
        make = playing.ComponentPolicy(context.loaded, context.kernel, selection)
    env = playing.PlayingEnv(context.loaded, context.kernel, states)()
    episodes, results = [], []
    for seed in seeds:
        recording = Recording(make(policy_seed(seed)))
        seed_policy(recording, seed)
        results += run_episodes(env, recording, [seed], deterministic=deterministic)
        episodes.append(recording.log)
    env.close()
    return episodes, results


def assert_same_decisions(ours, theirs):
    assert len(ours) == len(theirs) > 0
    for (key, seen, did), (other_key, other_seen, other_did) in zip(ours, theirs, strict=True):
        assert key == other_key
        for one, other in ((seen, other_seen), (did, other_did)):
            assert one.keys() == other.keys()
            for name, array in one.items():
                np.testing.assert_array_equal(array, other[name], strict=True)


def environment_of(context):
    """One environment of a context, inside its wrappers."""
    return Assembly(context.loaded, context.kernel).env_factory()()
