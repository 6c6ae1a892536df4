"""The trainer as the loop sees it: what it learns, validates, saves and refuses."""

import pytest
import torch

from maze_testing.trainers import check_trainer

PROBE = "maze_testing.environments:"


@pytest.mark.parametrize("kind", ["discrete", "multi-discrete", "multi-binary", "box"])
@pytest.mark.parametrize("loss", ["auto", "mse"])
def test_every_kind_of_head_is_imitated(identity_recording, make_trainer, kind, loss):
    folder = identity_recording(kind)
    options = {"lr": 0.01, "batch_size": 20, "loss": loss}
    trainer = make_trainer(folder, env={"use": PROBE + "Identity", "kind": kind}, trainer=options)
    first = trainer.train_epoch()
    for _ in range(40):
        last = trainer.train_epoch()
    assert last["ValidationEvents/policy_loss"] < first["ValidationEvents/policy_loss"]
    for group in ("ImitationEvents", "ValidationEvents"):
        if kind == "box":
            assert last[f"{group}/mean_abs_deviation/action"] < 0.1
        elif kind == "multi-binary":
            assert last[f"{group}/binary_accuracy/action"] > 0.97
        else:
            assert last[f"{group}/accuracy/action"] > 0.97
            assert last[f"{group}/rank/action"] < 1.05


def test_masks_and_dict_actions_are_imitated(masked_recording, make_trainer):
    trainer = make_trainer(
        masked_recording(40), env={"use": PROBE + "MaskedDict"}, trainer={"lr": 0.01, "batch_size": 32}
    )
    for _ in range(40):
        statistics = trainer.train_epoch()
    assert statistics["ImitationEvents/accuracy/pick"] > 0.9
    assert statistics["ImitationEvents/binary_accuracy/sign"] > 0.9


@pytest.mark.parametrize("options", [{}, {"eval_every_k_iterations": 3, "entropy_coef": 0.01, "max_grad_norm": 0.5}])
def test_it_conforms_to_the_trainer_suite(identity_recording, assemble, options):
    folder = identity_recording()

    def make():
        assembly = assemble(folder, trainer={"batch_size": 12, **options})
        return assembly.make_trainer(assembly.trainer_context())

    check_trainer(make)


def test_an_epoch_ends_with_the_pass_or_after_k_updates(identity_recording, make_trainer):
    # 6 episodes of 20 decisions, 5 to learn from: 10 minibatches of 10
    trainer = make_trainer(identity_recording(), trainer={"batch_size": 10, "eval_every_k_iterations": 4})
    counts = [trainer.train_epoch()["ImitationEvents/n_updates"] for _ in range(4)]
    assert counts == [4, 8, 10, 14]


def test_validation_episodes_are_never_learnt_from(identity_recording, make_trainer):
    folder = identity_recording()
    half = make_trainer(folder, trainer={"validation_percentage": 50.0})
    none = make_trainer(folder, trainer={"validation_percentage": 0.0})
    assert half._minibatches.n_rows == 60
    assert none._minibatches.n_rows == 120
    learnt, held_out = (set(minibatches.episodes) for minibatches in (half._minibatches, half._validation))
    assert len(learnt) == len(held_out) == 3
    assert not learnt & held_out
    assert not [tag for tag in none.train_epoch() if tag.startswith("ValidationEvents")]
    assert half.metric == "-train_ValidationEvents/policy_loss"
    assert none.metric == "-train_ImitationEvents/policy_loss"


def test_streamed_training_learns_what_training_in_memory_learns(identity_recording, make_trainer):
    folder = identity_recording(n_episodes=8)
    whole, streamed = (make_trainer(folder, trainer={"lr": 0.01, "batch_size": 20}) for _ in range(2))
    streamed._minibatches._part_rows = streamed._validation._part_rows = 30
    streamed._minibatches.is_streamed = streamed._validation.is_streamed = True
    for _ in range(40):
        in_memory, in_parts = whole.train_epoch(), streamed.train_epoch()
    for statistics in (in_memory, in_parts):
        assert statistics["ValidationEvents/accuracy/action"] > 0.97


def test_the_critic_is_left_as_it_is(identity_recording, make_trainer):
    trainer = make_trainer(identity_recording())
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.train_epoch()
    policy = set(trainer.model.policy_state_dict())
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, before[name]) == (name not in policy), name


def test_entropy_keeps_the_policy_unsure(identity_recording, make_trainer):
    folder = identity_recording()
    entropies = []
    for coefficient in (0.0, 0.5):
        trainer = make_trainer(folder, trainer={"lr": 0.01, "batch_size": 20, "entropy_coef": coefficient})
        for _ in range(20):
            statistics = trainer.train_epoch()
        entropies.append(statistics["ImitationEvents/policy_entropy"])
    assert entropies[1] > 2.0 * entropies[0]


@pytest.mark.slow
def test_compiled_and_eager_training_agree(identity_recording, make_trainer):
    folder = identity_recording("box")
    env = {"use": PROBE + "Identity", "kind": "box"}
    eager, compiled = (
        make_trainer(folder, env=env, trainer={"batch_size": 15, "compile": compiled, "entropy_coef": 0.01})
        for compiled in (False, True)
    )
    for _ in range(3):
        one, other = eager.train_epoch(), compiled.train_epoch()
        for tag, value in one.items():
            if not tag.startswith("Timing/"):
                assert other[tag] == pytest.approx(value, rel=1e-3, abs=1e-5), tag


@pytest.mark.parametrize("kind", ["discrete", "box"])
@pytest.mark.parametrize("loss", ["auto", "mse"])
def test_recorded_updates_equal_plain_ones_bit_for_bit(identity_recording, make_trainer, kind, loss):
    folder, env = identity_recording(kind), {"use": PROBE + "Identity", "kind": kind}
    options = {"lr": 0.01, "batch_size": 30, "loss": loss, "entropy_coef": 0.01, "max_grad_norm": 0.5}
    recorded, plain = (make_trainer(folder, env=env, trainer=options) for _ in range(2))
    plain._step._recorded = None
    for _ in range(30):
        one, other = recorded.train_epoch(), plain.train_epoch()
        assert one["ImitationEvents/policy_loss"] == other["ImitationEvents/policy_loss"]
    assert torch.equal(recorded._step.flat.data, plain._step.flat.data)
    assert all(form.replay is not None for form in recorded._step._recorded._forms.values())
