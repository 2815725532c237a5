//! The `process_*` metrics, under the names and in the units that Prometheus defines.

use procfs::ProcResult;
use procfs::process::Process;

use super::gauges::as_f64;

/// Sets the metrics to the values of this process.
pub(super) fn refresh() {
    if let Err(error) = read() {
        tracing::debug!(error = domain::reasons(&error), "the numbers of this process could not be read");
    }
}

fn read() -> ProcResult<()> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks_a_second = procfs::ticks_per_second();
    metrics::counter!("process_cpu_seconds_total").absolute((stat.utime + stat.stime) / ticks_a_second);
    metrics::gauge!("process_resident_memory_bytes").set(as_f64(stat.rss * procfs::page_size()));
    metrics::gauge!("process_virtual_memory_bytes").set(as_f64(stat.vsize));
    metrics::gauge!("process_threads").set(as_f64(u64::try_from(stat.num_threads).unwrap_or_default()));
    let started_at = procfs::boot_time_secs()? + stat.starttime / ticks_a_second;
    metrics::gauge!("process_start_time_seconds").set(as_f64(started_at));
    metrics::gauge!("process_open_fds").set(as_f64(process.fd_count()? as u64));
    Ok(())
}
