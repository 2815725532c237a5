//! Restricts the extraction process before it reads a page.
//!
//! 1. Landlock: no files, no TCP ports, no signals to other processes. Inherited by later threads.
//! 2. The working thread starts, because it needs a large stack and no thread can start afterwards.
//! 3. Resource limits: memory, CPU time, no new files or processes, no writes to files. Fails if a limit cannot be set.
//! 4. seccomp: only the system calls for computing in memory and responding. Also sets `no_new_privs`.
//!
//! The limits also apply on kernels without Landlock or seccomp; [`Confinement`] reports the effective restrictions.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use serde::{Deserialize, Serialize};

use crate::settings::ExtractSettings;
use crate::stack::on_large_stack;

/// Added to the niceness of the process, so that requests are served first.
const NICENESS: i32 = 10;

/// Restrictions that the kernel enforced on one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Restriction of files, ports and signals.
    pub landlock: LandlockSupport,
    /// Whether system calls were restricted.
    pub seccomp: bool,
}

/// Landlock support of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandlockSupport {
    /// Files, ports and signals: ABI 6 or newer.
    Full,
    /// At least files: an older ABI.
    Partial,
    /// Not supported.
    None,
}

impl Confinement {
    /// Whether files, network and programs are inaccessible.
    pub fn is_complete(self) -> bool {
        self.landlock != LandlockSupport::None && self.seccomp
    }
}

impl std::fmt::Display for Confinement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let landlock = match self.landlock {
            LandlockSupport::Full => "landlock",
            LandlockSupport::Partial => "landlock (an older version)",
            LandlockSupport::None => "no landlock",
        };
        write!(formatter, "{landlock}, {}", if self.seccomp { "seccomp" } else { "no seccomp" })
    }
}

/// Runs `work` on a restricted thread of this process. Must be called while the process has a single thread.
pub fn run<T: Send>(
    settings: &ExtractSettings,
    work: impl FnOnce(io::Result<Confinement>) -> T + Send,
) -> io::Result<T> {
    // Raising the niceness is always allowed; if it fails, the process just has normal priority.
    let _ = nice(NICENESS);
    let landlock = kernel::landlock();
    on_large_stack(move || {
        let limited = limit(settings);
        work(limited.map(|()| Confinement { landlock, seccomp: kernel::seccomp() }))
    })
}

/// Sets the resource limits. Keeps limits that are already lower.
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
        let bound = getrlimit(resource).maximum.map_or(bound, |inherited| inherited.min(bound));
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

    use super::LandlockSupport;

    /// The newest requested ABI: files, ports, signals and abstract sockets. Older kernels enforce a subset.
    const LANDLOCK: ABI = ABI::V6;

    /// Memory, existing threads, time, randomness, open pipes, signals to itself, exit. No call that takes a path or
    /// creates a descriptor, process or thread.
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

    pub(super) fn landlock() -> LandlockSupport {
        // Without rules, every handled right is denied.
        let restricted = || -> Result<RulesetStatus, RulesetError> {
            let ruleset = Ruleset::default()
                .handle_access(AccessFs::from_all(LANDLOCK))?
                .handle_access(AccessNet::from_all(LANDLOCK))?
                .scope(Scope::from_all(LANDLOCK))?;
            Ok(ruleset.create()?.restrict_self()?.ruleset)
        };
        match restricted() {
            Ok(RulesetStatus::FullyEnforced) => LandlockSupport::Full,
            Ok(RulesetStatus::PartiallyEnforced) => LandlockSupport::Partial,
            Ok(RulesetStatus::NotEnforced) | Err(_) => LandlockSupport::None,
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
        // Forbids executable mappings.
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            rules.insert(call, when(2, SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.unsigned_abs())), 0)?);
        }
        // `abort` sends its signal with it; allowed for this process only.
        rules.insert(libc::SYS_tgkill, when(0, SeccompCmpOp::Eq, u64::from(std::process::id()))?);
        // Other calls return ENOSYS instead of killing the process, because C libraries differ in their calls and have
        // fallbacks.
        let refused = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let processor = TargetArch::try_from(std::env::consts::ARCH)?;
        Ok(SeccompFilter::new(rules, refused, SeccompAction::Allow, processor)?.try_into()?)
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::LandlockSupport;

    pub(super) fn landlock() -> LandlockSupport {
        LandlockSupport::None
    }

    pub(super) fn seccomp() -> bool {
        false
    }
}
