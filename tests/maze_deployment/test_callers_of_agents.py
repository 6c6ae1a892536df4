"""Who may call an agent: threads in turn, never two at once; and no process that was forked from the agent's own."""

import os
import signal
import threading

import numpy as np
import pytest

from maze_deployment.agent import AgentDeployment
from maze_kernel.errors import EnvError, RequestError

GOOD = np.array([0.01, -0.02, 0.03, 0.04], np.float32)
OTHER = np.array([-1.0, -2.0, 1.0, 1.0], np.float32)


@pytest.fixture(scope="module")
def context(train):
    return train("CartPole-v1", wrappers=["observation-normalization"])


class Waiting:
    """A policy whose decisions wait until they are let go."""

    def __init__(self, policy):
        self.policy = policy
        self.decides, self.may_go_on = threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def act(self, *args, **kwargs):
        self.decides.set()
        assert self.may_go_on.wait(60)
        return self.policy.act(*args, **kwargs)


def in_thread(function):
    """Calls a function in a thread; returns the thread and the list that its result comes to."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    return thread, results


def test_a_call_while_another_thread_calls_is_refused_and_changes_nothing(context):
    with AgentDeployment.load(context) as alone:
        expected = [alone.act(GOOD), alone.act(OTHER, 1.0), alone.act(GOOD, 1.0)]
    with AgentDeployment.load(context) as agent:
        assert agent.act(GOOD) == expected[0]
        agent.reset()
        agent.policy = waiting = Waiting(agent.policy)
        agent.reset()
        thread, answers = in_thread(lambda: agent.act(GOOD))
        assert waiting.decides.wait(60)
        for call in (lambda: agent.act(OTHER), agent.reset, agent.top_actions, agent.close):
            with pytest.raises(RequestError, match="called by another thread") as refused:
                call()
            assert "one agent a thread" in refused.value.help
            assert "a lock" in refused.value.help
        assert agent.drain_episodes() == []
        waiting.may_go_on.set()
        thread.join(60)
        assert [*answers, agent.act(OTHER, 1.0), agent.act(GOOD, 1.0)] == expected
        assert agent.act(GOOD, 1.0, True) is None
        assert [(episode.length, episode.total_reward) for episode in agent.drain_episodes()] == [(3, 3.0)]


def test_threads_may_call_in_turn(context):
    with AgentDeployment.load(context) as alone:
        expected = [alone.act(state, 1.0) for state in (GOOD, OTHER, GOOD)]
    with AgentDeployment.load(context) as agent:
        answers = []
        for state in (GOOD, OTHER, GOOD):
            thread, answer = in_thread(lambda state=state: agent.act(state, 1.0))
            thread.join(60)
            answers += answer
    assert answers == expected


def test_a_call_that_failed_does_not_keep_others_out(context):
    with AgentDeployment.load(context) as agent:
        agent.policy = waiting = Waiting(agent.policy)
        waiting.act = lambda *_args, **_kwargs: 1 // 0
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                agent.act(GOOD)
        with pytest.raises(EnvError):
            agent.act(None)
        agent.policy = waiting.policy
        thread, answer = in_thread(lambda: agent.act(GOOD))
        thread.join(60)
        assert len(answer) == 1


def in_fork(call):
    """What a call in a forked process returns or raises, as text; that process is killed after a minute."""
    read_end, write_end = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        signal.alarm(60)
        try:
            told = repr(call())
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(write_end, told.encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as pipe:
        told = pipe.read()
    assert os.waitpid(process_id, 0)[1] == 0, "the forked process waited until it was killed"
    return told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_after_the_first_call_is_told_to_load_its_own_agent(context):
    with AgentDeployment.load(context) as agent:
        expected = agent.act(GOOD)
        for call in (lambda: agent.act(GOOD), agent.reset):
            told = in_fork(call)
            assert told.startswith("RequestError")
            assert f"forked from process {os.getpid()}" in told
            assert "load an agent in each process after the fork" in told
        assert in_fork(agent.close) == "None"
        assert agent.act(GOOD, 1.0) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_before_the_first_call_may_call(context):
    with AgentDeployment.load(context) as agent:
        told = in_fork(lambda: agent.act(GOOD))
        assert told == repr(agent.act(GOOD))
