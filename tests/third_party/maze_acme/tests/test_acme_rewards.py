"""`maze acme-rewards`, called as the command line calls it."""

import pytest
from typer.testing import CliRunner

from maze_kernel.cli.app import make_app


@pytest.fixture
def maze(kernel):
    app = make_app(kernel)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_it_is_listed_and_described(maze):
    assert "Sum up the rewards" in maze("--help").output
    assert "--folder" in maze("acme-rewards", "--help").output


def test_the_rewards_of_all_episodes_are_summed_up(maze, tmp_path):
    (tmp_path / "statistics").mkdir()
    rows = ["epoch,env_steps,wall_seconds,tag,value"]
    for epoch, count, mean in ((1, 2, 10.0), (2, 0, None), (3, 3, 20.5)):
        rows.append(f"{epoch},9,1.0,BaseEnvEvents/episode_count,{count}")
        rows += [f"{epoch},9,1.0,BaseEnvEvents/reward/mean,{mean}"] if mean is not None else []
    (tmp_path / "statistics" / "train.csv").write_text("\n".join(rows))
    done = maze("acme-rewards", tmp_path)
    assert done.exit_code == 0, done.output
    assert done.output == "5 training episodes, 81.5 reward in all\n"


def test_a_run_without_statistics_is_a_wrong_request(maze, tmp_path):
    done = maze("acme-rewards", tmp_path)
    assert done.exit_code == 2
    assert "there are no statistics" in done.output
