//! The Debian package: its files, and its life in an empty Debian.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{TOUR, VERSION, clean, made, only, printed, run, tour};

#[test]
fn a_debian_package_has_its_files_where_debian_has_them_and_lives_in_an_empty_debian() {
    let Some(out) = made("debian", &["dpkg-deb"]) else { return };
    let package = only(out.path(), ".deb");
    has_its_files(&package);
    if let Some(archive) = empty_debian() {
        is_installed_used_removed_and_purged(&package, &archive);
    }
}

#[track_caller]
fn has_its_files(package: &Path) {
    assert!(printed(package.file_name().unwrap().to_str().unwrap()).starts_with("sudo apt install ./"));
    let said = run(Command::new("dpkg-deb").arg("--info").arg(package));
    for part in [" Package: attache\n", &format!(" Version: {VERSION}\n"), " Depends: adduser, libc6 (>= 2."] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let listed = run(Command::new("dpkg-deb").arg("--contents").arg(package));
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    let root = tempfile::tempdir().unwrap();
    run(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(root.path()));
    let path = |path: &str| root.path().join(path);
    let unit = fs::read_to_string(path("usr/lib/systemd/system/attache.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/attache serve --config /etc/attache/config.toml"), "{unit}");
    assert_eq!(fs::read_to_string(path("DEBIAN/conffiles")).unwrap(), "/etc/attache/config.toml\n");
    for script in ["postinst", "prerm", "postrm"] {
        assert_eq!(fs::metadata(path("DEBIAN").join(script)).unwrap().permissions().mode() & 0o777, 0o755);
        run(Command::new("sh").arg("-n").arg(path("DEBIAN").join(script)));
    }
    run(Command::new("md5sum").args(["--check", "--strict", "DEBIAN/md5sums"]).current_dir(root.path()));
    let program = path("usr/bin/attache");
    let settings = fs::read_to_string(path("etc/attache/config.toml")).unwrap();
    assert!(settings.contains("\ndir = \"/var/lib/attache\" #"), "where the unit keeps its data");
    let mut check = clean(&program, root.path());
    run(check.arg("--config").arg(path("etc/attache/config.toml")).arg("check"));
    tour(&program);
}

/// The archive of an empty Debian that `make tools` makes; `None`, and a message on standard error, without one.
fn empty_debian() -> Option<PathBuf> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or("none");
    let archive = harness::cache()?.join(format!("debian-{name}.tar"));
    // Only an administrator may change the root; namespaces keep the mounts and the processes from this machine.
    let may = Command::new("unshare").args(["--mount", "--net", "--pid", "--fork", "true"]).output();
    if !may.is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: this user may not change the root folder: the package was not installed");
        return None;
    }
    if !archive.is_file() {
        assert!(!harness::postgres::required(), "there is no {}: `make tools` makes it", archive.display());
        eprintln!("SKIPPED: there is no {}: `make tools` makes it: the package was not installed", archive.display());
        return None;
    }
    Some(archive)
}

/// Runs a script of a shell in a Debian, as its administrator and without a network.
#[track_caller]
fn inside(debian: &Path, script: &str) -> String {
    const ENTER: &str = "ip link set lo up && mount -t proc proc \"$1/proc\" && mount --rbind /dev \"$1/dev\" && cd / && exec chroot \"$@\"";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--net", "--pid", "--fork", "sh", "-c", ENTER, "sh"]).arg(debian);
    shell.args(["sh", "-euc", script]).env_clear();
    run(shell.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The files of a Debian outside the databases and logs of its package manager.
fn files(debian: &Path) -> String {
    const PRUNED: &str = "find . -path ./var/lib/dpkg -prune -o -path ./var/lib/apt -prune -o -path ./var/cache -prune -o \
        -path ./var/log -prune -o -path ./tmp -prune -o -print | LC_ALL=C sort";
    run(Command::new("sh").args(["-c", PRUNED]).current_dir(debian))
}

/// Starts the service as its unit does, waits until it is ready, and ends it.
const SERVICE: &str = "
    mkfifo -m 666 /tmp/said
    setpriv --reuid=attache --regid=attache --clear-groups attache serve --config /etc/attache/config.toml > /tmp/said 2> /tmp/log &
    read -r ready < /tmp/said
    attache health
    kill $!
    wait $!
    echo \"$ready\"
    rm /tmp/said";

#[track_caller]
fn is_installed_used_removed_and_purged(package: &Path, archive: &Path) {
    let name = package.file_name().unwrap().to_str().unwrap();
    let install = printed(name);
    let install = install.strip_prefix("sudo ").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let debian = folder.path();
    run(Command::new("tar").arg("--extract").arg("--file").arg(archive).current_dir(debian));
    // Copies of the account databases stay after the first change.
    inside(
        debian,
        "adduser --system --group --quiet first && deluser --system --quiet first && useradd first && userdel first",
    );
    let before = files(debian);
    fs::copy(package, debian.join("tmp").join(name)).unwrap();

    let said = inside(debian, &format!("cd /tmp && {install}"));
    assert!(said.contains("Start attache, as the user attache") && !said.contains("warning"), "{said}");
    let data = fs::metadata(debian.join("var/lib/attache")).unwrap();
    assert_eq!(data.permissions().mode() & 0o777, 0o700, "only the service reads its data");
    let said = inside(debian, SERVICE);
    assert!(said.contains("http://127.0.0.1:8080"), "{said}");
    let person =
        "useradd --create-home ada && exec setpriv --reuid=ada --regid=ada --clear-groups env HOME=/home/ada attache";
    let said = inside(debian, &format!("{person} {}", TOUR.join(" ")));
    assert!(said.contains("the proof is valid") && said.contains("Bees ("), "{said}");
    inside(debian, "userdel --remove ada");

    // A package that was removed keeps data and settings, and finds them again.
    fs::write(debian.join("etc/attache/config.toml"), "[data]\ndir = \"/var/lib/attache\"\n").unwrap();
    inside(debian, "apt-get remove --yes attache && ! command -v attache");
    assert!(debian.join("var/lib/attache/attache.db").is_file());
    inside(debian, &format!("cd /tmp && {install}"));
    let settings = fs::read_to_string(debian.join("etc/attache/config.toml")).unwrap();
    assert!(!settings.contains('#'), "an upgrade replaces no settings of the operator: {settings}");
    inside(debian, SERVICE);

    inside(debian, "apt-get purge --yes attache && ! getent passwd attache && ! getent group attache");
    let after = files(debian);
    let left: Vec<&str> = after.lines().filter(|file| !before.lines().any(|old| old == *file)).collect();
    assert!(left.is_empty(), "a purged package leaves nothing: {left:?}");
}
