"""One pair of Q networks for all policy keys: an environment's decisions are one series, whoever takes them."""

import types
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
import torch
from sac_environments import CREWS, GAMMA, Wanderer, spaces_of

from maze_kernel.config.load import load_experiment, select
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.errors import RequestError
from maze_runtime.env.simulation import Recording
from maze_runtime.models.shared_action_values import Earlier
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.run.assembly import Assembly
from maze_sac.experience import Experience
from maze_sac.options import SACOptions
from maze_testing.trainers import check_trainer
from maze_trajectories.recording import RecordingEnv

NO_WEIGHTS = SimpleNamespace(data=torch.empty(0))
"""Of a model that is not trained."""

PLACE = "maze_testing.structured_environments:"
SMALL = {"use": "sac", "epoch_length": 6, "batch_size": 16, "initial_buffer_size": 40, "replay_buffer_size": 400}
STRUCTURED = ["two keys in turn", "agents out of step", "agents that leave", "divided rewards", "a team that changes"]


def tables(name="DoorAndKey", critic="shared-state", **options):
    model = {"use": "auto", "hidden_units": [16], "critic": critic}
    return {"env": {"use": PLACE + name}, "model": model, "trainer": {**SMALL, **options}}


def account(episode):
    """Observation number to what the transition is: decision by decision, flat step by flat step."""
    decisions, result, begin = episode["decisions"], {}, 0
    seen_by, did_by = {}, {}
    for k, row in enumerate(decisions):
        if k == begin:
            seen_by, did_by = {}, {}
        seen_by[row["actor"].step_key] = row["seen"]
        saw, did = dict(seen_by), dict(did_by)
        did_by[row["actor"].step_key] = row["action"]
        following, discount = None, row["gamma"]
        if row["gamma"] != 1.0:
            begin = k + 1
        if k + 1 < len(decisions):
            following = (decisions[k + 1]["actor"].step_key, decisions[k + 1]["seen"])
        elif episode["end"] == "terminated":
            discount = 0.0
        elif episode["last"][1] != row["seen"]:
            following = (episode["last"][0].step_key, episode["last"][1])
        else:
            continue
        result[row["seen"]] = (row["actor"].step_key, row["action"], row["reward"], discount, following, saw, did)
    return result


def everything(envs):
    return {number: row for env in envs for episode in env.episodes for number, row in account(episode).items()}


@pytest.fixture
def play(assemble):
    def build(crew, n_envs, **options):
        envs = [Wanderer(crew, index + 1) for index in range(n_envs)]
        spaces = spaces_of(CREWS[crew])
        context = attrs.evolve(
            assemble(trainer={"use": "sac"}).trainer_context(),
            spaces=spaces,
            make_vector_env=lambda: SequentialVectorEnv([lambda env=env: env for env in envs]),
            make_env=lambda: envs[0],
            make_policy=lambda _model, seed: RandomPolicy(PolicyContext(spaces=spaces, seed=seed)),
        )
        model = types.SimpleNamespace(critic_kind="shared-state-action")
        experience = Experience(context, model, NO_WEIGHTS, SACOptions(gamma=GAMMA, replay_buffer_size=5000, **options))
        experience.start_segment(0)
        return experience, envs

    return build


def check_against(expected, experience):
    """Everything drawn is in the account, and nearly all of that is drawn."""
    drawn = set()
    keys = experience._keys
    for key, batch in experience.sample(3000, np.random.default_rng(0)).items():
        for i, number in enumerate(batch.observation["x"][:, 0].tolist()):
            wanted_key, action, reward, discount, following, saw, did = expected[number]
            assert (key, int(batch.action["a"][i])) == (wanted_key, action)
            assert batch.transitions.reward[i] == pytest.approx(reward, abs=1e-5)
            assert batch.transitions.discount[i] == pytest.approx(discount, abs=1e-6)
            if discount:
                after = keys[int(batch.next_key[i])]
                assert (after, float(batch.next_observation[after]["x"][i, 0])) == following
            names = {key: "x" if len(keys) == 1 else f"x@{key}" for key in keys}
            found = {key: float(batch.context.saw[names[key]][i, 0]) for key in keys if seen(batch, names[key], i)}
            assert found == saw
            acted = {keys[j] for j in np.flatnonzero(batch.context.acted[i])}
            assert {key: int(batch.context.did[key]["a"][i]) for key in acted} == did
            drawn.add(number)
    assert len(drawn) > 0.9 * len(expected)


def seen(batch, name, row):
    return batch.context.seen[row, list(batch.context.saw).index(name)]


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("crew", STRUCTURED)
def test_transitions_run_to_the_next_decision_and_know_the_flat_step_so_far(play, crew, n_envs):
    experience, envs = play(crew, n_envs)
    experience.collect(250)
    expected = everything(envs)
    assert experience.n_transitions == len(expected) > 100
    check_against(expected, experience)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("crew", ["two keys in turn", "divided rewards", "a team that changes"])
def test_recorded_transitions_are_those_of_play(play, kernel, tmp_path, crew, keep):
    wanderer = Wanderer(crew, 9)
    env = RecordingEnv(wanderer, Recording(folder=tmp_path / "expert"))
    rng = np.random.default_rng(0)
    for seed in range(40):
        env.reset(seed=seed)
        for _ in range(int(rng.integers(1, 30))):
            *_, terminated, truncated, _ = env.step({"a": np.int64(rng.integers(1000))})
            if terminated or truncated:
                break
    env.close()
    data = select(kernel, "dataset", {"path": str(tmp_path / "expert")})
    experience, envs = play(crew, 2, demonstrations=data, keep_demonstrations=keep)
    experience.add_demonstrations()
    expected = {
        number: row
        for episode in wanderer.episodes
        for number, row in account(episode).items()
        if row[3] == 0.0 or row[4] is not None
    }
    assert experience.n_transitions > 100
    experience.collect(100)
    check_against(expected | everything(envs), experience)


@pytest.mark.parametrize("name", ["DoorAndKey", "Hierarchy", "ChangingTeam", "Pair"])
def test_it_passes_the_conformance_of_trainers(assemble, name):
    assembly = assemble(**tables(name))
    check_trainer(lambda: assembly.make_trainer(assembly.trainer_context()), n_epochs=2, off_policy=True)


def test_workers_collect_what_is_learnt_from(make_trainer):
    where = {"vector": {"n_envs": 3, "mode": "workers"}, "workers": {"use": "inline", "count": 2}}
    trainer = make_trainer(**tables(n_rollout_steps=5), **where)
    sizes = [trainer.train_epoch()["SACEvents/buffer_size"] for _ in range(2)]
    assert 40 <= sizes[0] < sizes[1]


def test_there_is_one_pair_of_networks_and_it_is_trained(make_trainer):
    trainer = make_trainer(**tables())
    critics = {name.split(".")[1] for name in trainer.model.state_dict() if name.startswith("critics")}
    assert critics == {"shared"}
    of_networks = {id(p) for p in trainer.model.critics["shared"].parameters()}
    assert {id(p) for p in trainer._update.critic_flat.parameters} == of_networks
    before = trainer._update.critic_flat.data.clone()
    trainer.train_epoch()
    assert not torch.equal(trainer._update.critic_flat.data, before)
    (drawn,) = [graph for graph in trainer.model.network_graphs() if graph.role == "action-values"]
    assert drawn.policy_key == "all"


def test_values_depend_on_what_was_seen_and_done_earlier_in_the_flat_step(make_trainer):
    trainer = make_trainer(**tables())
    trainer.train_epoch()
    drawn = trainer._experience.sample(32, np.random.default_rng(0))
    batch = trainer._batch("key", drawn["key"])
    critic = trainer.model.action_value_critic("key")
    values = critic(batch.observation)
    assert values.shape == (2, 32, 3)
    for name in (Earlier.did("door"), Earlier.saw("shown@door")):
        other = critic({**batch.observation, name: batch.observation[name].roll(1, dims=-1)})
        assert not torch.allclose(values, other)
    hidden = {**batch.observation, Earlier.SEEN: torch.zeros_like(batch.observation[Earlier.SEEN])}
    blank = {**hidden, Earlier.saw("shown@door"): torch.rand(32, 3)}
    assert torch.equal(critic(hidden), critic(blank))


@pytest.mark.parametrize("name", ["DoorAndKey", "Hierarchy"])
def test_targets_are_the_soft_values_of_whoever_decides_next(make_trainer, name):
    """Row by row in NumPy: min over twins, softmax policy, the temperature of the key that follows."""
    trainer = make_trainer(**tables(name))
    trainer.train_epoch()
    trainer._update.log_alpha.copy_(torch.tensor([-1.0, 0.5]))
    alpha = trainer._update.log_alpha.exp()
    drawn = trainer._experience.sample(24, np.random.default_rng(0))
    batches = {key: trainer._batch(key, own) for key, own in drawn.items()}
    from maze_sac.objectives import Losses

    update = trainer._update
    found = Losses(update._objectives, batches).targets(update._policy, update._target.network, alpha)
    model, keys = trainer.model, list(batches)
    followers = set()
    for targets, (key, batch) in zip(found, batches.items(), strict=True):
        for row in range(24):
            follower = keys[int(drawn[key].next_key[row])]
            followers.add((key, follower))
            one = {name: array[row : row + 1] for name, array in batch.next_observation[follower].items()}
            with torch.no_grad():
                q = update._target.network(follower, one)[:, 0].double().numpy()
                logits = model.logits(follower, one)["choice"][0].double().numpy()
            probability = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            own_alpha = float(alpha[keys.index(follower)])
            value = sum(p * (min(q[0][k], q[1][k]) - own_alpha * np.log(p)) for k, p in enumerate(probability))
            wanted = drawn[key].transitions.reward[row] + drawn[key].transitions.discount[row] * value
            assert float(targets[row]) == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert len(followers) > 1


def test_mixed_keys_of_choices_and_numbers_share_networks(make_trainer):
    trainer = make_trainer(**{**tables(), "env": {"use": "two_keys:SignThenSize"}})
    statistics = trainer.train_epoch()
    assert all(np.isfinite(value) for value in statistics.values())
    sign, size = (trainer.model.action_value_critic(key) for key in ("sign", "size"))
    assert sign.networks is size.networks
    batch = {
        key: trainer._batch(key, own) for key, own in trainer._experience.sample(8, np.random.default_rng(0)).items()
    }
    assert sign(batch["sign"].observation).shape == (2, 8, 2)
    action = torch.tensor(np.linspace(-1, 1, 8)[:, None], dtype=torch.float32)
    values = size(batch["size"].observation, action)
    assert values.shape == (2, 8)
    assert not torch.allclose(values, size(batch["size"].observation, -action))


def test_concat_templates_read_blocks_by_the_own_names_of_observations(make_trainer):
    dense = {"use": "dense", "hidden_units": [8]}
    model = {
        "use": "concat",
        "blocks": {"shown": dense, "other": dense},
        "hidden": dense,
        "critic": {"use": "shared-state"},
    }
    make_trainer(**{**tables(), "model": model}).train_epoch()


def test_differences_of_values_are_refused(make_trainer):
    with pytest.raises(RequestError, match="values actions") as refusal:
        make_trainer(**tables(critic="delta-state"))
    assert "shared-state" in refusal.value.expected


def test_whole_rollouts_are_refused(make_trainer):
    with pytest.raises(RequestError, match="all policy keys"):
        make_trainer(**tables(n_rollout_steps=4, split_rollouts_into_transitions=False))


def test_what_is_refused_is_shown_where_it_stands(kernel, tmp_path):
    file = tmp_path / "experiment.toml"
    env = f'[env]\nuse = "{PLACE}DoorAndKey"'
    file.write_text(f'name = "x"\n{env}\n[model]\nuse = "auto"\ncritic = "delta-state"\n[trainer]\nuse = "sac"\n')
    with pytest.raises(RequestError) as refusal:
        Assembly(load_experiment(file, kernel=kernel), kernel).make_model()
    assert "experiment.toml:6:10" in refusal.value.render()


def test_without_a_choice_each_key_keeps_networks_of_its_own(make_trainer):
    chosen = tables(critic="step-state")
    unsaid = {**chosen, "model": {"use": "auto", "hidden_units": [16]}}
    runs = [make_trainer(**each) for each in (chosen, unsaid)]
    for trainer in runs:
        trainer.train_epoch()
    assert all(set(trainer._experience.replay) == {"door", "key"} for trainer in runs)
    assert torch.equal(*(trainer._update.critic_flat.data for trainer in runs))


@pytest.mark.slow
def test_compiled_updates_equal_eager_ones(make_trainer):
    """Updates with a single choice draw no noise, so both see the same numbers."""
    runs = [make_trainer(**tables(epoch_length=3, tau=0.2, compile=compiled)) for compiled in (False, True)]
    for trainer in runs:
        trainer.train_epoch()
    for own in ("critic_flat", "policy_flat"):
        one, other = (getattr(trainer._update, own).data.numpy() for trainer in runs)
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
