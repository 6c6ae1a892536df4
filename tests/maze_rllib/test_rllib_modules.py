"""RLlib's modules and distributions around Maze's: the same numbers, and no forbidden choice."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("ray", reason="Ray is not installed")

from ray.rllib.core.columns import Columns

from maze_kernel.config import select
from maze_kernel.contracts.model import ModelContext
from maze_rllib.distribution import distribution_class, join_logits, split_logits
from maze_rllib.module import MODEL, POLICY_KEY, ActorCriticModule, QNetworkModule
from maze_rllib.soft_actor_critic import SoftActorCriticModule, target_entropy
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.masking import MASKED_LOGIT, MaskError


@pytest.fixture
def masked(assemble):
    """A model with the heads "pick", masked, and "sign"."""
    return assemble(env={"use": "maze_testing.environments:MaskedDict"}).make_model()


def rows(n):
    rng = np.random.default_rng(0)
    mask = rng.integers(2, size=(n, 4)).astype(np.int8)
    mask[np.arange(n), rng.integers(4, size=n)] = 1
    return {"observation": torch.from_numpy(rng.random((n, 4), np.float32)), "pick_mask": torch.from_numpy(mask)}


def test_flat_logits_give_the_numbers_of_the_heads(masked):
    heads, observation = masked.distributions["0"], rows(16)
    logits = masked.logits("0", observation)
    joined = join_logits(logits)
    assert all(torch.equal(part, logits[name]) for name, part in split_logits(heads, joined).items())
    made = distribution_class(heads).from_logits(joined)
    action = made.sample()
    assert torch.equal(made.logp(action), heads.log_prob(logits, action))
    assert torch.equal(made.entropy(), heads.entropy(logits))
    other = distribution_class(heads).from_logits(joined.flip(0))
    flipped = {name: part.flip(0) for name, part in logits.items()}
    assert torch.equal(made.kl(other), heads.kl(logits, flipped))
    mode = made.to_deterministic().sample()
    assert all(torch.equal(mode[name], best) for name, best in heads.mode(logits).items())


def test_a_module_gives_the_logits_and_values_of_the_model(masked):
    module = ActorCriticModule(
        observation_space=masked.spaces.observation["0"],
        action_space=masked.spaces.action["0"],
        model_config={MODEL: masked, POLICY_KEY: "0"},
    )
    batch = {Columns.OBS: rows(8)}
    out = module.forward_train(batch)
    logits, value = masked.logits_and_value("0", batch[Columns.OBS])
    assert torch.equal(out[Columns.ACTION_DIST_INPUTS], join_logits(logits))
    assert torch.equal(module.compute_values(batch, out[Columns.EMBEDDINGS]), value)
    assert torch.equal(module.compute_values(batch), value)
    assert module.actor_critic is not masked


class Allowing(torch.nn.Module):
    """Stands in for a model of four choices, of which a mask allows some."""

    def __init__(self):
        super().__init__()
        self.spaces = type("Spaces", (), {"observation": {"0": spaces.Dict({"mask": spaces.MultiBinary(4)})}})
        self.distributions = {"0": type("Heads", (), {"heads": {"action": None}})()}

    def logits(self, _key, observation):
        mask = observation["mask"]
        return {"action": torch.arange(4.0).expand(len(mask), 4).masked_fill(mask == 0, MASKED_LOGIT)}


def q_module(epsilon):
    config = {MODEL: Allowing(), POLICY_KEY: "0", "epsilon": epsilon, "double_q": True}
    return QNetworkModule(observation_space=spaces.MultiBinary(4), action_space=spaces.Discrete(4), model_config=config)


def test_exploring_at_random_stays_within_the_mask():
    module = q_module(1.0)
    mask = torch.tensor([[1, 0, 1, 0]]).repeat(400, 1)
    taken = module.forward_exploration({Columns.OBS: mask}, t=0)[Columns.ACTIONS]
    assert set(taken.tolist()) == {0, 2}
    assert set(module.forward_inference({Columns.OBS: mask})[Columns.ACTIONS].tolist()) == {2}


def test_a_mask_without_any_choice_is_an_error():
    with pytest.raises(MaskError):
        q_module(1.0).forward_exploration({Columns.OBS: torch.zeros(3, 4)}, t=0)


def test_the_share_of_random_choices_follows_the_schedule():
    module = q_module([[0, 1.0], [100, 0.0]])
    mask = torch.ones(4000, 4)
    greedy = [
        (module.forward_exploration({Columns.OBS: mask}, t=t)[Columns.ACTIONS] == 3).float().mean()
        for t in (0, 50, 100)
    ]
    assert greedy == pytest.approx([0.25, 0.625, 1.0], abs=0.04)


def test_the_wanted_entropy_is_that_of_actions_from_minus_one_to_one():
    assert target_entropy(spaces.Box(-3.0, 5.0, (2,))) == -2.0
    assert target_entropy(spaces.Discrete(4)) == pytest.approx(0.98 * np.log(4.0))


def test_the_unit_of_an_action_does_not_change_its_density(kernel):
    told = []
    for low, high in ((-1.0, 1.0), (-300.0, 500.0)):
        flat = flat_spaces(
            spaces.Dict({"observation": spaces.Box(-1.0, 1.0, (3,))}),
            spaces.Dict({"action": spaces.Box(low, high, (2,))}),
        )
        context = ModelContext(spaces=flat, catalog=kernel.catalog, seed=3, critic="state-action")
        module = SoftActorCriticModule(
            observation_space=flat.observation["0"],
            action_space=flat.action["0"],
            model_config={MODEL: kernel.catalog.build(select(kernel, "model", "auto"), context), POLICY_KEY: "0"},
        )
        module.make_target_networks()
        rows = {"observation": torch.linspace(-1.0, 1.0, 15).reshape(5, 3)}
        torch.manual_seed(0)
        batch = {Columns.OBS: rows, Columns.NEXT_OBS: rows, Columns.ACTIONS: torch.zeros(5, 2)}
        told.append(module.forward_train(batch))
    for name in ("logp_resampled", "logp_next_resampled"):
        torch.testing.assert_close(told[1][name], told[0][name], rtol=1e-4, atol=1e-4)
