"""ZooKeeper under attack: one server, or three, each in a namespace of its own."""

import signal
import time

import processes
import zookeepers

ANSWERS_SECONDS_MAX = 60


def names_of(count):
    """The names of so many servers in the network."""
    return ["zookeeper"] if count == 1 else [f"zookeeper{number}" for number in range(1, count + 1)]


def begin(folder, network, count):
    """So many servers, which answer."""
    names = names_of(count)
    if count == 1:
        (name,) = names
        return One(folder / name, network.address(name), before=network.inside(name))
    return Three(folder / "zookeepers", network, names)


class One(processes.ZooKeeper):
    """A server alone."""

    names = names_of(1)


class Three(zookeepers.Ensemble):
    """Three servers: any two of them go on."""

    def __init__(self, folder, network, names):
        self.names = names
        places = {
            number: (network.address(name), network.inside(name))
            for number, name in enumerate(names, start=1)
        }
        super().__init__(folder, places=places)
        self.leader()

    def name(self, number):
        return self.names[number - 1]

    def kill(self, number=None):
        """One, or all."""
        for one in list(self.processes) if number is None else [number]:
            super().kill(one)

    def start(self, number=None):
        """One, or all."""
        for one in [it for it in self.places if it not in self.processes]:
            if number in [None, one]:
                super().start(one)

    def stop_for_now(self, number):
        self.processes[number].send_signal(signal.SIGSTOP)

    def go_on(self, number):
        self.processes[number].send_signal(signal.SIGCONT)

    def await_answers(self):
        """Waits until each leads or follows."""
        end = time.monotonic() + ANSWERS_SECONDS_MAX
        while not all("Mode: " in self.ask(number) for number in self.processes):
            assert time.monotonic() < end, "a server of ZooKeeper does not come back"
            time.sleep(0.1)
