"""A file tree with the parts of /proc and /sys that say what a process may use."""

V1 = "25 20 0:22 {mounted} {point} rw,nosuid - cgroup cgroup rw,{controller}"
V2 = "30 20 0:26 {mounted} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw"


def write(root, files):
    """Write {path: text} below root and return it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def cgroup_v2(root, group, files, mounted="/"):
    """Lay out version 2: the process in `group`, `mounted` the part of the tree that is visible, files below the mount."""
    proc = {"proc/self/cgroup": f"0::{group}", "proc/self/mountinfo": "22 1 0:5 / /proc rw - proc proc rw\n" + V2.format(mounted=mounted)}
    return write(root, proc | {f"sys/fs/cgroup/{name}": text for name, text in files.items()})


def cgroup_v1(root, group, files, mounted="/"):
    """Lay out version 1 with the controllers cpu (together with cpuacct) and memory."""
    points = {"cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory"}
    mounts = [V1.format(mounted=mounted, point=point, controller=controller) for controller, point in points.items()]
    groups = [f"{number}:{controller}:{group}" for number, controller in enumerate(points, 3)]
    proc = {"proc/self/cgroup": "\n".join([*groups, "1:name=systemd:/", "0::/"]), "proc/self/mountinfo": "\n".join(mounts)}
    return write(root, proc | {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
