"""A stand-in for the module pynvml: cards and MIG slices with the answers they are given."""

from types import SimpleNamespace


class NVMLError(Exception):
    """Fail as a call into the library does."""


NOT_SUPPORTED = NVMLError("Not Supported")


def card(uuid, name="NVIDIA H200", **answers):
    """Describe a card; an answer that is an exception is raised, a list is consumed answer by answer."""
    return SimpleNamespace(uuid=uuid, name=name, parent=None, answers=answers)


def mig_slice(uuid, parent, **answers):
    """Describe a MIG slice of a card, which knows neither its power nor its use."""
    answers = {"power_mw": NOT_SUPPORTED, "energy_mj": NOT_SUPPORTED, "utilisation": NOT_SUPPORTED} | answers
    return SimpleNamespace(uuid=uuid, name="slice", parent=parent, answers=answers)


class FakeNvml:
    """Answer for `devices`; the listed order is NVML's, and MIG slices are found by UUID only."""

    def __init__(self, *devices, init=None):
        self.devices = devices
        self.cards = [device for device in devices if device.parent is None]
        self.init = init
        self.open = 0

    def nvmlInit(self):
        if self.init is not None:
            raise self.init
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):
        return "570.124.06"

    def nvmlSystemGetCudaDriverVersion(self):
        return 12080

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for device in self.devices:
            if device.uuid == uuid:
                return device
        raise NVMLError("Not Found")

    def nvmlDeviceGetUUID(self, device):
        return device.uuid

    def nvmlDeviceGetName(self, device):
        return device.name.encode()

    def nvmlDeviceIsMigDeviceHandle(self, device):
        return int(device.parent is not None)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, device):
        return device.parent

    def nvmlDeviceGetMigMode(self, device):
        return [int(any(other.parent is device for other in self.devices)), 0]

    def nvmlDeviceGetMemoryInfo(self, device):
        return SimpleNamespace(total=self._answer(device, "memory_bytes", 2**37))

    def nvmlDeviceGetEnforcedPowerLimit(self, device):
        return self._answer(device, "power_limit_mw", 700_000)

    def nvmlDeviceGetMaxClockInfo(self, device, kind):
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetPowerUsage(self, device):
        return self._answer(device, "power_mw", 350_000)

    def nvmlDeviceGetTotalEnergyConsumption(self, device):
        return self._answer(device, "energy_mj", 1000)

    def nvmlDeviceGetClockInfo(self, device, kind):
        return self._answer(device, {1: "sm_clock", 2: "memory_clock"}[kind], {1: 1755, 2: 3201}[kind])

    def nvmlDeviceGetTemperature(self, device, sensor):
        return self._answer(device, "temperature", 60)

    def nvmlDeviceGetUtilizationRates(self, device):
        return SimpleNamespace(gpu=self._answer(device, "utilisation", 97))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device):
        return self._answer(device, "throttle", 0)

    def _answer(self, device, name, default):
        answer = device.answers.get(name, default)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        return answer
