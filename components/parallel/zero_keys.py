"""The names of DeepSpeed's configuration: which are free, and which the run says itself."""

from __future__ import annotations

OWNED = {
    "train_batch_size": "global_batch_size",
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "gradient_accumulation_steps": "accumulation",
    "managed_gradient_accumulation": "accumulation",
    "gradient_clipping": "clip_norm",
    "gradient_allreduce_op": "parallel (its loss is weighted for a mean over ranks)",
    "fp16": "precision",
    "bf16": "precision",
    "bfloat16": "precision",
    "torch_autocast": "precision",
    "data_types.param_dtype": "precision",
    "optimizer": "optimizer",
    "scheduler": "scheduler",
    "zero_optimization.stage": "parallel",
    "zero_optimization.compute_grad_norm": "clip_norm (the norm is always reported)",
    "zero_optimization.offload_optimizer.device": "parallel.offload_optimizer",
    "zero_optimization.offload_optimizer.nvme_path": "parallel.nvme_path",
    "zero_optimization.offload_param.device": "parallel.offload_params",
    "zero_optimization.offload_param.nvme_path": "parallel.nvme_path",
    "zero_optimization.cpu_offload": "parallel.offload_optimizer",
    "zero_optimization.cpu_offload_param": "parallel.offload_params",
    "activation_checkpointing": "model.checkpointing",
    "checkpoint": "checkpoint",
    "datastates_ckpt": "checkpoint",
    "hybrid_engine": "parallel (it trains only)",
    "weight_quantization": "precision",
    "data_efficiency": "data",
    "dataloader_drop_last": "data.epoch_end",
    "tensor_parallel": "parallel (its ranks all are data-parallel)",
    "expert_parallel": "parallel (its ranks all are data-parallel)",
    "sequence_parallel_size": "parallel (its ranks all are data-parallel)",
    "pipeline": "parallel (parallel=pipeline)",
    "autotuning": "micro_batch_size (autotuning ends the process)",
    "wandb": "logger",
    "tensorboard": "logger",
    "csv_monitor": "logger",
    "comet": "logger",
}
"""DeepSpeed key -> the run's own key for the same thing. Said once, it cannot be said twice."""

TOP_LEVEL = frozenset(
    {
        "aio",
        "comms_logger",
        "communication_data_type",
        "compile",
        "data_types",
        "disable_allgather",
        "disable_python_gc",
        "dump_state",
        "flops_profiler",
        "gradient_predivide_factor",
        "log_level",
        "memory_breakdown",
        "prescale_gradients",
        "seq_parallel_communication_data_type",
        "steps_per_print",
        "timers",
        "use_data_before_expert_parallelism",
        "vocabulary_size",
        "wall_clock_breakdown",
        "zero_allow_untested_optimizer",
        "zero_force_ds_cpu_optimizer",
        "zero_optimization",
    }
) | {key.split(".")[0] for key in OWNED}
"""What DeepSpeed 0.19 reads at the top level; it has no schema of its own for that."""

PLAIN_SECTIONS = {
    "aio": frozenset(
        {
            "block_size",
            "intra_op_parallelism",
            "overlap_events",
            "queue_depth",
            "single_submit",
            "use_gds",
        }
    ),
    "data_types": frozenset(
        {"buffer_dtype", "grad_accum_dtype", "keep_in_fp32_modules", "param_dtype"}
    ),
    "flops_profiler": frozenset(
        {
            "detailed",
            "enabled",
            "module_depth",
            "output_file",
            "profile_step",
            "recompute_fwd_factor",
            "top_modules",
        }
    ),
    "timers": frozenset({"throughput"}),
}
"""Sections that DeepSpeed reads key by key, and their keys."""
