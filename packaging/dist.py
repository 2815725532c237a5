#!/usr/bin/env python3
"""Makes the packages of built programs: `dist.py PROGRAM... FOLDER`. `make dist` builds the programs and calls it.

Nothing here compiles or needs root. The same program gives the same bytes: times are SOURCE_DATE_EPOCH, or the time of the last commit, and
owners and modes are fixed. `docs/releasing.md` lists what is made, and `tests/packages` installs it.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "packaging"
SUMMARY = "Accounts, consent and provable events for software agents"
#: User of the container image, without a name on the machine.
UID = 10001


class Unusable(Exception):
    """The packages cannot be made: what is missing, and what to do."""


@dataclass(frozen=True)
class Edition:
    """How a program is packaged."""

    #: The crate with the program.
    crate: str
    #: Name on PyPI and npm: `attache` belongs to others there.
    registry: str
    summary: str
    #: Text of the package there.
    readme: str
    #: All packages, or only those without a service.
    serves: bool


EDITIONS = {
    "attache": Edition("attache", "attache-server", SUMMARY, "README.registry.md", True),
    "attache-client": Edition("attache-commands", "attache-cli", f"{SUMMARY}: the client", "README.client.md", False),
}


class Program:
    """A program that is packaged."""

    def __init__(self, path: Path, epoch: int, fast: bool, scratch: Path):
        self.epoch, self.fast, self.scratch = epoch, fast, scratch
        self.name, self.version = run(path, "--version").split()
        self.edition = EDITIONS[self.name]
        # The names of functions are a tenth of it. Panics name file and line without them.
        self.path = scratch / self.name
        run("strip", "--strip-all", "-o", self.path, path)
        #: The name in all documents. Where both programs are, it is the one with the server.
        self.called = scratch / "called" / "attache"
        self.called.parent.mkdir()
        self.called.symlink_to(self.path)
        head = run("readelf", "--file-header", self.path)
        machine = re.search(r"Machine:\s+(.*)", head).group(1)
        try:
            self.arch, self.deb_arch, self.npm_arch, self.oci_arch = {
                "Advanced Micro Devices X86-64": ("x86_64", "amd64", "x64", "amd64"),
                "AArch64": ("aarch64", "arm64", "arm64", "arm64"),
            }[machine]
        except KeyError:
            raise Unusable(f"{path} is for {machine}: there are packages for x86_64 and aarch64 only") from None
        symbols = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "--dynamic-syms", self.path))
        #: The oldest C library that has what the program uses.
        self.glibc = max(((int(major), int(minor)) for major, minor in symbols), default=(2, 17))
        self.needs_libgcc = "libgcc_s.so.1" in run("readelf", "--dynamic", self.path)

    def text(self, *arguments: str) -> bytes:
        """What the program prints."""
        return run(self.called, *arguments).encode()


def run(*command, env=None, **options) -> str:
    """The standard output of a command."""
    try:
        done = subprocess.run([str(part) for part in command], env=env, check=True, stdout=subprocess.PIPE, text=True, **options)
    except FileNotFoundError:
        raise Unusable(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise Unusable(f"{' '.join(map(str, command))} failed with status {error.returncode}") from None
    return done.stdout


class Tree:
    """The files of a package: path, content and mode; in an image also links and folders."""

    def __init__(self):
        self.files: dict[str, tuple[bytes, int]] = {}
        self.links: dict[str, str] = {}
        #: Folders with their mode and owner; others are 0755 and root's.
        self.folders: dict[str, tuple[int, int]] = {}

    def add(self, path: str, content, mode: int = 0o644) -> "Tree":
        self.files[path] = (content.read_bytes() if isinstance(content, Path) else content, mode)
        return self

    def write(self, folder: Path, epoch: int) -> Path:
        """Writes the files below a folder, all with the same time."""
        for path, (content, mode) in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(mode)
        for found in sorted(folder.rglob("*"), reverse=True):
            if found.is_dir():
                found.chmod(0o755)
            os.utime(found, (epoch, epoch), follow_symlinks=False)
        return folder

    def tar(self, epoch: int, top: str = "") -> bytes:
        """A tar archive of all, with their folders."""
        out = io.BytesIO()
        paths = [*self.files, *self.links, *self.folders]
        folders = {str(parent) for path in paths for parent in Path(top, path).parents} - {"."}
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:

            def add(path: str, content: bytes = b"", **fields) -> None:
                entry = tarfile.TarInfo(path)
                entry.mtime, entry.size = epoch, len(content)
                for name, value in fields.items():
                    setattr(entry, name, value)
                archive.addfile(entry, io.BytesIO(content))

            for path, (mode, owner) in sorted(({folder: (0o755, 0) for folder in folders} | self.folders).items()):
                add(path, type=tarfile.DIRTYPE, mode=mode, uid=owner, gid=owner)
            for path, target in sorted(self.links.items()):
                add(str(Path(top, path)), type=tarfile.SYMTYPE, linkname=target)
            for path, (content, mode) in sorted(self.files.items()):
                add(str(Path(top, path)), content, mode=mode)
        return out.getvalue()


def gzipped(content: bytes, level: int = 9) -> bytes:
    return gzip.compress(content, compresslevel=level, mtime=0)


def filled(template: str, program: Program, **more) -> bytes:
    """A file of this folder with `@NAME@` replaced."""
    text = (HERE / template).read_text()
    values = {"VERSION": program.version, "ARCHITECTURE": program.deb_arch, "SUMMARY": SUMMARY, **more}
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    left = re.search(r"@[A-Z_]+@", text)
    assert left is None, f"{template} has {left}"
    return text.encode()


def licenses(crate: str) -> bytes:
    """The licences of all crates that the program of this crate consists of, each text once."""
    metadata = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", cwd=ROOT, stderr=subprocess.DEVNULL))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, todo = set(), [package["id"] for package in metadata["packages"] if package["name"] == crate]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            normal = (dep for dep in nodes[one]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"]))
            todo.extend(dep["pkg"] for dep in normal)
    texts: dict[str, list[str]] = {}
    for package in sorted((packages[one] for one in found), key=lambda package: (package["name"], package["version"])):
        if package["source"] is None:
            continue
        folder = Path(package["manifest_path"]).parent
        name = f"{package['name']} {package['version']} ({package['license'] or 'see its licence file'})"
        files = [file for file in sorted(folder.iterdir()) if re.match(r"(?i)(licen[cs]e|copying|notice)", file.name) and file.is_file()]
        own = [file.read_text(errors="replace").strip() for file in files]
        for text in own or ["This crate has no licence file of its own; the expression in brackets is from its manifest."]:
            texts.setdefault(text, []).append(name)
    parts = ["attache contains these packages by other authors.\n"]
    for text, names in texts.items():
        parts.append("\n".join(["=" * 80, *dict.fromkeys(names), "-" * 80, text, ""]))
    return "\n".join(parts).encode()


def archive(program: Program, notices: bytes, out: Path) -> None:
    """`NAME-VERSION-ARCH-linux.tar.zst`: program, licences, manual, completions; with the server also unit and configuration."""
    top = f"{program.name}-{program.version}-{program.arch}-linux"
    tree = Tree().add(program.name, program.path, 0o755).add("LICENSE", ROOT / "LICENSE").add("THIRD-PARTY", notices)
    tree.add("attache.1", program.text("manual")).add("CHANGELOG.md", ROOT / "CHANGELOG.md")
    if program.edition.serves:
        tree.add("config.toml", ROOT / "config.toml").add("attache.service", ROOT / "docs/deploy/attache.service")
    else:
        tree.links["attache"] = program.name
    for shell, name in SHELLS.items():
        tree.add(f"completions/{name}", program.text("completions", shell))
    level = "-3" if program.fast else "-19"
    packed = subprocess.run(["zstd", "--quiet", level, "--stdout"], input=tree.tar(program.epoch, top), stdout=subprocess.PIPE, check=True)
    (out / f"{top}.tar.zst").write_bytes(packed.stdout)


SHELLS = {"bash": "attache", "fish": "attache.fish", "zsh": "_attache"}


def debian(program: Program, notices: bytes, out: Path) -> None:
    """`attache_VERSION_ARCH.deb`."""
    doc = "usr/share/doc/attache"
    unit = (ROOT / "docs/deploy/attache.service").read_text().replace("/usr/local/bin/", "/usr/bin/")
    settings, number = re.subn('(?m)^dir = "data"', 'dir = "/var/lib/attache"', (ROOT / "config.toml").read_text())
    assert number == 1, "config.toml has another data.dir"
    tree = Tree().add("usr/bin/attache", program.path, 0o755).add("etc/attache/config.toml", settings.encode())
    tree.add("usr/lib/systemd/system/attache.service", unit.encode())
    tree.add("usr/share/man/man1/attache.1.gz", gzipped(program.text("manual")))
    completions = {"bash": "bash-completion/completions", "fish": "fish/vendor_completions.d", "zsh": "zsh/vendor-completions"}
    for shell, folder in completions.items():
        tree.add(f"usr/share/{folder}/{SHELLS[shell]}", program.text("completions", shell))
    date = run("date", "--utc", "--rfc-email", f"--date=@{program.epoch}").strip()
    tree.add(f"{doc}/changelog.gz", gzipped(filled("debian/changelog", program, DATE=date)))
    tree.add(f"{doc}/copyright", filled("debian/copyright", program)).add(f"{doc}/THIRD-PARTY.gz", gzipped(notices))
    tree.add("usr/share/lintian/overrides/attache", HERE / "debian/lintian-overrides")
    size = sum(len(content) for content, _ in tree.files.values()) // 1024
    libgcc = ", libgcc-s1" if program.needs_libgcc else ""
    libc = ".".join(map(str, program.glibc))
    tree.add("DEBIAN/control", filled("debian/control", program, SIZE=size, LIBC=libc, LIBGCC=libgcc))
    tree.add("DEBIAN/conffiles", b"/etc/attache/config.toml\n")
    for script in ("postinst", "prerm", "postrm"):
        tree.add(f"DEBIAN/{script}", HERE / "debian" / script, 0o755)
    sums = [f"{hashlib.md5(content).hexdigest()}  {path}" for path, (content, _) in sorted(tree.files.items()) if not path.startswith("DEBIAN/")]
    tree.add("DEBIAN/md5sums", ("\n".join(sums) + "\n").encode())
    folder = tree.write(program.scratch / "deb", program.epoch)
    name = out / f"attache_{program.version}_{program.deb_arch}.deb"
    # One thread: what several make depends on their number.
    pack = ["-Zxz", "-z1" if program.fast else "-z6", "--threads-max=1"]
    run("dpkg-deb", "--root-owner-group", *pack, "--build", folder, name, env={**os.environ, "SOURCE_DATE_EPOCH": str(program.epoch)}, stderr=sys.stderr)


def wheel(program: Program, notices: bytes, out: Path) -> None:
    """`NAME-VERSION-py3-none-manylinux_….whl`: the program as a script, as in wheels of other compiled tools."""
    edition = program.edition
    name = edition.registry.replace("-", "_")
    tag = f"py3-none-manylinux_{program.glibc[0]}_{program.glibc[1]}_{program.arch}"
    info = f"{name}-{program.version}.dist-info"
    readme = (HERE / edition.readme).read_text()
    head = [
        "Metadata-Version: 2.4",
        f"Name: {edition.registry}",
        f"Version: {program.version}",
        f"Summary: {edition.summary}",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "License-File: THIRD-PARTY",
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
        "Classifier: Private :: Do Not Upload",
    ]
    scripts = f"{name}-{program.version}.data/scripts"
    tree = Tree().add(f"{scripts}/{program.name}", program.path, 0o755)
    if program.name != "attache":
        # A wheel has no links.
        tree.add(f"{scripts}/attache", f'#!/bin/sh\nexec "${{0%/*}}/{program.name}" "$@"\n'.encode(), 0o755)
    tree.add(f"{info}/METADATA", "\n".join([*head, "", readme]).encode())
    tree.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: attache\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    tree.add(f"{info}/licenses/LICENSE", ROOT / "LICENSE").add(f"{info}/licenses/THIRD-PARTY", notices)
    folder = tree.write(program.scratch / "wheel", program.epoch)
    run(sys.executable, "-m", "wheel", "pack", folder, "--dest-dir", out, env={**os.environ, "SOURCE_DATE_EPOCH": str(program.epoch)})


def npm(program: Program, notices: bytes, out: Path) -> None:
    """A package with the program for one platform, and the package that people name, which depends on it."""
    edition = program.edition
    platform = f"{edition.registry}-linux-{program.npm_arch}"
    common = {"version": program.version, "license": "Apache-2.0", "private": True}
    licence = {"LICENSE": ROOT / "LICENSE", "THIRD-PARTY": notices}
    described = {"name": platform, **common, "description": f"{edition.summary}: the program for Linux on {program.arch}"}
    described |= {"os": ["linux"], "cpu": [program.npm_arch], "libc": ["glibc"], "files": ["bin", *licence]}
    packages = [(platform, described, {f"bin/{program.name}": (program.path, 0o755)})]
    names = dict.fromkeys(["attache", program.name], "bin/attache.js")
    described = {"name": edition.registry, **common, "description": edition.summary, "bin": names}
    described |= {"engines": {"node": ">=18"}, "files": ["bin", *licence], "optionalDependencies": {platform: program.version}}
    script = filled("npm/attache.js", program, PACKAGE=edition.registry, PROGRAM=program.name)
    packages.append((edition.registry, described, {"bin/attache.js": (script, 0o755), "README.md": (HERE / edition.readme, 0o644)}))
    for name, described, files in packages:
        tree = Tree().add("package.json", (json.dumps(described, indent=2) + "\n").encode())
        for path, content in licence.items():
            tree.add(path, content)
        for path, (content, mode) in files.items():
            tree.add(path, content, mode)
        folder = tree.write(program.scratch / "npm" / name, program.epoch)
        run("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", out, cwd=folder)


def image(program: Program, _notices: bytes, out: Path) -> None:
    """`attache-VERSION-ARCH.oci.tar`: an OCI image without a shell, of Debian's C library and authorities, and the program."""
    root = program.scratch / "image"
    root.mkdir()
    wanted = [f"libc6:{program.deb_arch}", "ca-certificates"]
    if program.needs_libgcc:
        wanted.append(f"libgcc-s1:{program.deb_arch}")
    run("apt-get", "download", "--quiet", "--option", "APT::Sandbox::User=root", *wanted, cwd=root, stderr=sys.stderr)
    base, sources = Tree(), []
    for package in sorted(root.glob("*.deb")):
        sources.append("=".join(run("dpkg-deb", "--show", "--showformat=${Package} ${Version}", package).split()))
        run("dpkg-deb", "--extract", package, root / "files")
    # A merged /usr.
    base.links = {"lib": "usr/lib", "lib64": "usr/lib64"}
    base.folders = {"dev": (0o755, 0), "proc": (0o555, 0), "tmp": (0o1777, 0), "var/lib/attache": (0o700, UID)}
    for file in sorted((root / "files").rglob("*")):
        path = str(file.relative_to(root / "files"))
        first, _, rest = path.partition("/")
        path = f"{base.links.get(first, first)}/{rest}"
        # Of the C library: the libraries, which the program and name resolution load, and the licence.
        if not file.is_symlink() and file.is_file() and re.search(r"\.so(\.\d+)*$|/copyright$", path) and "/gconv/" not in path:
            base.add(path, file, 0o755 if file.name.startswith("ld-") else 0o644)
    # As update-ca-certificates writes it, which cannot run here.
    authorities = sorted((root / "files/usr/share/ca-certificates").rglob("*.crt"))
    base.add("etc/ssl/certs/ca-certificates.crt", b"".join(file.read_bytes() for file in authorities))
    loader = next(path for path in base.files if Path(path).name.startswith("ld-linux"))
    # The path of the loader in the program's header is below lib64 on x86_64.
    in_header = f"usr/lib64/{Path(loader).name}"
    if in_header != loader:
        base.links[in_header] = os.path.relpath(loader, "usr/lib64")
    base.add("etc/passwd", f"root:x:0:0:root:/:/\nattache:x:{UID}:{UID}:attache:/var/lib/attache:/\n".encode())
    base.add("etc/group", f"root:x:0:\nattache:x:{UID}:\n".encode())
    base.add("etc/nsswitch.conf", b"hosts: files dns\n")
    base.add("etc/os-release", b'ID=attache\nPRETTY_NAME="attache, with the C library of Debian"\n')
    code = Tree().add("usr/bin/attache", program.path, 0o755).add("usr/share/doc/attache/LICENSE", ROOT / "LICENSE")
    plain = [tree.tar(program.epoch) for tree in (base, code)]
    layers = [(layer, gzipped(layer, 1 if program.fast else 9)) for layer in plain]
    created = run("date", "--utc", "--iso-8601=seconds", f"--date=@{program.epoch}").strip()
    config = {
        "created": created,
        "architecture": program.oci_arch,
        "os": "linux",
        "config": {
            "User": f"{UID}:{UID}",
            "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},
            # The operator's listener has no credential: publish its port to a network of operators only.
            "Env": ["ATTACHE_DATA__DIR=/var/lib/attache", "ATTACHE_HTTP__BIND=0.0.0.0:8080", "ATTACHE_ADMIN__BIND=0.0.0.0:8081"],
            "Entrypoint": ["/usr/bin/attache"],
            "Cmd": ["serve"],
            "Volumes": {"/var/lib/attache": {}},
            "WorkingDir": "/var/lib/attache",
            "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image.version": program.version, "org.opencontainers.image.licenses": "Apache-2.0"},
            # Of Docker's format; other programs ignore it.
            "Healthcheck": {"Test": ["CMD", "/usr/bin/attache", "health"], "Interval": 10**10, "Timeout": 5 * 10**9, "StartPeriod": 6 * 10**10, "Retries": 3},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(plain)}" for plain, _ in layers]},
        "history": [{"created": created, "created_by": ", ".join(sources)}, {"created": created, "created_by": f"attache {program.version}"}],
    }
    blobs = Tree()

    def blob(content: bytes, media_type: str) -> dict:
        digest = sha256(content)
        blobs.add(f"blobs/sha256/{digest}", content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), f"{kind}.config.v1+json"),
        "layers": [blob(packed, f"{kind}.layer.v1.tar+gzip") for _, packed in layers],
    }
    entry = blob(json.dumps(manifest).encode(), manifest["mediaType"])
    entry |= {"platform": {"architecture": program.oci_arch, "os": "linux"}, "annotations": {"org.opencontainers.image.ref.name": program.version}}
    index = {"schemaVersion": 2, "mediaType": f"{kind}.index.v1+json", "manifests": [entry]}
    blobs.add("index.json", json.dumps(index).encode()).add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    (out / f"attache-{program.version}-{program.arch}.oci.tar").write_bytes(blobs.tar(program.epoch))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sums(out: Path, key: "str | None") -> None:
    """`SHA256SUMS`, and `SHA256SUMS.minisig` if there is a key."""
    files = [file for file in sorted(out.iterdir()) if not file.name.startswith("SHA256SUMS")]
    (out / "SHA256SUMS").write_text("".join(f"{sha256(file.read_bytes())}  {file.name}\n" for file in files))
    if key:
        run("minisign", "-S", "-s", key, "-m", out / "SHA256SUMS", stderr=sys.stderr)


#: The packages, and whether they are made of a program without a server.
MAKERS = {"archive": (archive, True), "debian": (debian, False), "wheel": (wheel, True), "npm": (npm, True), "image": (image, False)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the packages of built programs.")
    parser.add_argument("programs", type=Path, nargs="+", metavar="PROGRAM")
    parser.add_argument("folder", type=Path, help="where the packages are put; it is emptied first")
    parser.add_argument("--fast", action="store_true", help="compress less, for tests")
    parser.add_argument("--only", choices=MAKERS, action="append", help="make this package only; may be repeated")
    parser.add_argument("--sbom", type=Path, action="append", default=[], help="the list of components of a program, in the order of these")
    parser.add_argument("--sign-with", metavar="KEY", help="minisign's secret key")
    arguments = parser.parse_args()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    out = arguments.folder.resolve()
    for nth, path in enumerate(arguments.programs):
        with tempfile.TemporaryDirectory() as scratch:
            program = Program(path, epoch, arguments.fast, Path(scratch))
            notices = licenses(program.edition.crate)
            for name in arguments.only or MAKERS:
                make, is_of_client = MAKERS[name]
                if program.edition.serves or is_of_client:
                    make(program, notices, out)
            if nth < len(arguments.sbom):
                shutil.copyfile(arguments.sbom[nth], out / f"{program.name}-{program.version}-{program.arch}.cdx.json")
    sums(out, arguments.sign_with)
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size:>12,}  {file.name}")


if __name__ == "__main__":
    try:
        main()
    except Unusable as error:
        sys.exit(f"dist.py: {error}")
