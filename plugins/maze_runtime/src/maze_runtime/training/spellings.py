"""What other libraries call the options that trainers share: read where an option is unknown, to suggest ours."""

from __future__ import annotations

from collections.abc import Mapping

SPELLINGS: Mapping[str, str] = {
    **dict.fromkeys(("learning_rate", "step_size", "alpha"), "lr"),
    **dict.fromkeys(("num_steps", "rollout_length", "rollout_fragment_length", "train_freq"), "n_rollout_steps"),
    **dict.fromkeys(
        ("total_timesteps", "num_timesteps", "n_timesteps", "total_steps", "max_timesteps"), "max_env_steps"
    ),
    **dict.fromkeys(("ent_coef", "ent_coeff", "entropy_coeff", "entropy_beta"), "entropy_coef"),
    **dict.fromkeys(("vf_coef", "vf_loss_coeff", "value_coef"), "value_loss_coef"),
    **dict.fromkeys(("grad_clip", "clip_grad", "gradient_clip", "grad_norm"), "max_grad_norm"),
    **dict.fromkeys(("discount", "discount_factor"), "gamma"),
    **dict.fromkeys(("lambda", "lam", "lambda_", "td_lambda"), "gae_lambda"),
    **dict.fromkeys(("clip_param", "clip_coef", "clip_eps", "clip_epsilon", "eps_clip"), "clip_range"),
    **dict.fromkeys(("clip_range_vf", "vf_clip_param"), "value_clip_range"),
    **dict.fromkeys(("update_epochs", "num_sgd_iter", "repeat_per_collect"), "n_optimization_epochs"),
    **dict.fromkeys(("minibatch_size", "sgd_minibatch_size"), "batch_size"),
    **dict.fromkeys(("adam_eps", "eps"), "adam_epsilon"),
    **dict.fromkeys(("buffer_size", "memory_size", "replay_size"), "replay_buffer_size"),
    **dict.fromkeys(("learning_starts", "warmup_steps", "start_steps"), "initial_buffer_size"),
    **dict.fromkeys(("gradient_steps", "updates_per_step"), "num_batches_per_iter"),
    **dict.fromkeys(("polyak", "target_update_tau"), "tau"),
    **dict.fromkeys(("n_workers", "num_workers"), "num_actors"),
    **dict.fromkeys(("sigma", "noise_std"), "noise_stddev"),
    **dict.fromkeys(("population_size", "pop_size"), "n_rollouts_per_update"),
    **dict.fromkeys(("policy", "policy_kwargs", "replay_buffer_class", "replay_buffer_kwargs"), ""),
}
"""Their spelling to ours, of words that mean the same everywhere; "" has no counterpart, however alike a name may look.

An options class has it as its attribute `ALIASES`, with what its own trainer is told by words that mean something else
elsewhere: `n_steps` is the length of a rollout or of a return.
"""
