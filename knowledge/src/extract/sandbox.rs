//! Restricts the extraction process before it reads a page.
//!
//! 1. Landlock: no file is opened, no TCP port bound or connected to, no process outside signalled. Threads that start later inherit it.
//! 2. The one thread that works starts, because its stack is large and no thread can start afterwards.
//! 3. Limits: memory, processor time, no new files, processes or bytes in files. A limit that cannot be set ends the work.
//! 4. seccomp: only the system calls that computing in memory and answering need. `no_new_privs` comes with it.
//!
//! A kernel without Landlock or seccomp still has the limits; [`Confinement`] reports the restrictions that were in force.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use serde::{Deserialize, Serialize};

use super::settings::ExtractSettings;
use super::stack::on_large_stack;

/// Added to the niceness of the process, so that requests are served first.
const NICENESS: i32 = 10;

/// Restrictions that the kernel enforced for one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Files, ports, other processes.
    pub landlock: Degree,
    /// System calls.
    pub seccomp: bool,
}

/// Degree of Landlock support in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Degree {
    /// Files, ports and signals: ABI 6 or newer.
    Full,
    /// Files at least: an older ABI.
    Partial,
    /// No Landlock.
    None,
}

impl Confinement {
    /// Whether files, network and programs are out of reach.
    pub fn is_complete(self) -> bool {
        self.landlock != Degree::None && self.seccomp
    }
}

impl std::fmt::Display for Confinement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let landlock = match self.landlock {
            Degree::Full => "landlock",
            Degree::Partial => "landlock (an older version)",
            Degree::None => "no landlock",
        };
        write!(formatter, "{landlock}, {}", if self.seccomp { "seccomp" } else { "no seccomp" })
    }
}

/// Runs `work` on a thread of this process that has given everything up. Call it while the process has one thread.
pub fn run<T: Send>(
    settings: &ExtractSettings,
    work: impl FnOnce(io::Result<Confinement>) -> T + Send,
) -> io::Result<T> {
    // Only lowers a priority, which is always allowed; without it the work is as fair as any other process.
    let _ = nice(NICENESS);
    let landlock = kernel::landlock();
    on_large_stack(move || {
        let limited = limit(settings);
        work(limited.map(|()| Confinement { landlock, seccomp: kernel::seccomp() }))
    })
}

/// Bounds this process. Limits that were lower before stay.
fn limit(settings: &ExtractSettings) -> io::Result<()> {
    let seconds = settings.timeout.saturating_add(Duration::from_secs(1)).as_secs();
    for (resource, bound) in [
        (Resource::Data, settings.memory_bytes_max),
        (Resource::Cpu, seconds),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, 0),
        (Resource::Nproc, 0),
    ] {
        let bound = getrlimit(resource).maximum.map_or(bound, |before| before.min(bound));
        setrlimit(resource, Rlimit { current: Some(bound), maximum: Some(bound) })?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::collections::BTreeMap;

    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope};
    use seccompiler::{
        BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        TargetArch, apply_filter_all_threads,
    };

    use super::Degree;

    /// The newest ABI whose rights are requested: files, ports, signals and abstract sockets. Older kernels enforce a subset.
    const LANDLOCK: ABI = ABI::V6;

    /// Memory, existing threads, time, randomness, open pipes, signals to itself, exit. No call that takes a path or creates a
    /// descriptor, a process or a thread.
    const ALLOWED: [i64; 36] = [
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_close,
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_membarrier,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_getcpu,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_getrandom,
        libc::SYS_getrlimit,
        libc::SYS_getrusage,
        libc::SYS_sysinfo,
        libc::SYS_uname,
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_fstat,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    pub(super) fn landlock() -> Degree {
        // The rules are empty: every right that is handled is refused everywhere.
        let restricted = || -> Result<RulesetStatus, RulesetError> {
            let ruleset = Ruleset::default()
                .handle_access(AccessFs::from_all(LANDLOCK))?
                .handle_access(AccessNet::from_all(LANDLOCK))?
                .scope(Scope::from_all(LANDLOCK))?;
            Ok(ruleset.create()?.restrict_self()?.ruleset)
        };
        match restricted() {
            Ok(RulesetStatus::FullyEnforced) => Degree::Full,
            Ok(RulesetStatus::PartiallyEnforced) => Degree::Partial,
            Ok(RulesetStatus::NotEnforced) | Err(_) => Degree::None,
        }
    }

    pub(super) fn seccomp() -> bool {
        filter().and_then(|filter| apply_filter_all_threads(&filter)).is_ok()
    }

    fn filter() -> Result<BpfProgram, Error> {
        let when = |argument, operator, value| -> Result<Vec<SeccompRule>, Error> {
            let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
            Ok(vec![SeccompRule::new(vec![condition])?])
        };
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.into_iter().map(|call| (call, Vec::new())).collect();
        // Memory that can be written never becomes code.
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            rules.insert(call, when(2, SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.unsigned_abs())), 0)?);
        }
        // `abort` sends a signal with it; allowed for this process only.
        rules.insert(libc::SYS_tgkill, when(0, SeccompCmpOp::Eq, u64::from(std::process::id()))?);
        // Any other call returns ENOSYS and does not end the process: C libraries differ in their calls, and have fallbacks.
        let refused = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let processor = TargetArch::try_from(std::env::consts::ARCH)?;
        Ok(SeccompFilter::new(rules, refused, SeccompAction::Allow, processor)?.try_into()?)
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::Degree;

    pub(super) fn landlock() -> Degree {
        Degree::None
    }

    pub(super) fn seccomp() -> bool {
        false
    }
}
