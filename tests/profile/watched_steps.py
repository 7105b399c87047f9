"""Made-up events of steps, in ticks of 1 s.

The folder is no package: one called `profile` would stand in for the standard library's.
"""

from normbench.profile.costs import step_costs
from normbench.profile.events import Event, EventKind, Kernel
from normbench.profile.kinds import ModuleKind
from normbench.profile.summary import Basis, Module, Turn, summarise


def event(kind, name, start, end, *, sequence=None, thread=1, forward_thread=1, kernels=()):
    """Return an event; `kernels` are seconds of the kernels that it launches."""
    return Event(
        name=name,
        kind=EventKind(kind),
        start_s=float(start),
        end_s=float(end),
        thread=thread,
        sequence=sequence,
        forward_thread=forward_thread,
        kernels=tuple(Kernel(name=f"kernel of {name}", time_s=time_s) for time_s in kernels),
    )


def step(start, end):
    return event("step", "step", start, end)


def training_step(*, kernels=False, backward_thread=1):
    """Return a step of 100 s of a norm and a linear in a network, with a loss outside of it.

    Forward: the norm 10 s, 8 of them its operator; the linear 20 s, 15 of them its operator. Backward: the loss 4 s, the linear 30 s
    and 2 s for its gradient, the norm 12 s; the engine 1 s and 2 s before those of the linear, 4 s before that of the norm.
    """
    launched = (lambda *seconds: seconds) if kernels else lambda *seconds: ()
    of_engine = {"thread": backward_thread, "forward_thread": 1}
    return [
        step(0, 100),
        event("module", "", 2, 36),
        event("module", "norm", 4, 14),
        event("operator", "aten::layer_norm", 5, 13, sequence=7, kernels=launched(0.5)),
        event("operator", "aten::native_layer_norm", 6, 12, sequence=7, kernels=launched(3, 1)),
        event("module", "linear", 15, 35),
        event("operator", "aten::linear", 16, 31, sequence=8, kernels=launched(9)),
        event("operator", "aten::mse_loss", 37, 41, sequence=9, kernels=launched(1)),
        event("node", "MseLossBackward0", 43, 47, sequence=9, **of_engine),
        event("operator", "MseLossBackward0", 43.5, 46.5, sequence=9, kernels=launched(1), **of_engine),
        event("node", "AddmmBackward0", 48, 78, sequence=8, **of_engine),
        event("operator", "aten::mm", 49, 77, kernels=launched(18), **of_engine),
        event("runtime", "cudaLaunchKernel", 50, 52, **of_engine),
        event("node", "torch::autograd::AccumulateGrad", 80, 82, **of_engine),
        event("node", "NativeLayerNormBackward0", 86, 98, sequence=7, **of_engine),
        event("operator", "aten::native_layer_norm_backward", 87, 97, kernels=launched(6), **of_engine),
    ]


MODULES = {
    "": Module(class_name="Network", kind=ModuleKind.OTHER),
    "norm": Module(class_name="LayerNorm", kind=ModuleKind.NORM),
    "linear": Module(class_name="Linear", kind=ModuleKind.FEED_FORWARD),
}


def turn(events, *, plain_s=80.0, host_s=None, profiled_s=100.0):
    return Turn(plain_s=plain_s, host_s=plain_s if host_s is None else host_s, profiled_s=profiled_s, costs=step_costs(events))


def profile_of(events, modules=MODULES, basis=Basis.HOST, **times):
    return summarise([turn(events, **times)], modules, basis)
