//! `attache usage`: shows the remaining allowance of the plan as bars.

use clap::Args;
use domain::foreign::visible;
use domain::usage::PercentLeft;
use wire::usage::{ByteLimit, Measure, UsageBar};

use crate::connection::{CredentialArgs, Remote};
use crate::failure::{Done, Failure};
use crate::terminal::{BAD, FAINT, GOOD, STRONG, WARNING};
use crate::{output, terminal};

/// Options of `attache usage`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Requests and prints the usage bars.
pub async fn usage(arguments: &Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    let (usage, _) = connection.read_account(arguments.whom, async |client| client.usage_bar().await).await?;
    let value = serde_json::to_value(&usage).map_err(Failure::caused)?;
    let base_url = connection.client.base_url();
    output::show(connection.json, &value, || shown(&usage, base_url));
    Ok(())
}

fn shown(usage: &UsageBar, base_url: &str) -> String {
    let limits = usage.limits.map(|limits| {
        let memory_bytes = limits.memory_bytes.map(|of| format!("memories       {}\n", bytes(of))).unwrap_or_default();
        format!("events today   {}\n{memory_bytes}", bytes(limits.event_bytes))
    });
    // Without `account.top_up_url` the server returns the account page, which has no shop.
    let is_shop = usage.top_up_url != format!("{base_url}/account");
    let top_up = if is_shop { format!("\ntop up         {}", visible(&usage.top_up_url)) } else { String::new() };
    format!(
        "plan           {}\nmemory         {}\nretrospective  {}\n{}balance        {}{top_up}",
        terminal::styled(STRONG, usage.plan.as_str()),
        measure(usage.memory),
        measure(usage.retrospective),
        limits.unwrap_or_default(),
        dollars(usage.balance_cents),
    )
}

fn measure(measure: Measure) -> String {
    let resets = format!("resets {}", measure.reset_at.format("%Y-%m-%d %H:%M UTC"));
    // Padding comes before colouring, because escape sequences count as characters.
    let left = format!("{:>5} % left", measure.percent_left.to_string());
    format!("{} {left}  {}", bar(measure.percent_left), terminal::styled(FAINT, resets))
}

/// The share of a limit in bytes that is left.
fn bytes(of: ByteLimit) -> String {
    let left = PercentLeft::of(of.limit.unwrap_or_default(), of.used);
    let limit = of.limit.map_or("no limit".to_owned(), |limit| format!("of {} MB", limit >> 20));
    let resets = of.reset_at.map(|at| format!(", resets {}", at.format("%Y-%m-%d %H:%M UTC"))).unwrap_or_default();
    let used = terminal::styled(FAINT, format!("{} MB used {limit}{resets}", of.used.div_ceil(1 << 20)));
    format!("{} {:>5} % left  {used}", bar(left), left.to_string())
}

/// A bar that is full if nothing has been used.
fn bar(left: PercentLeft) -> String {
    /// Width of the bar in characters.
    const WIDTH: usize = 30;
    let tenths = usize::from(left.tenths());
    // Any remaining allowance shows at least one full cell.
    let full = (tenths * WIDTH / 1000).max(usize::from(tenths > 0));
    let style = match tenths {
        300.. => GOOD,
        100..300 => WARNING,
        _ => BAD,
    };
    format!("{}{}", terminal::styled(style, "█".repeat(full)), terminal::styled(FAINT, "░".repeat(WIDTH - full)))
}

/// An amount of US cents in dollars, such as `-$2.50`.
pub fn dollars(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}${}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_the_rest_and_never_hides_the_last_of_it() {
        let bars =
            [(1000, 0), (1000, 500), (1000, 999), (1000, 1000)].map(|(limit, used)| bar(PercentLeft::of(limit, used)));
        assert_eq!(bars[0], "█".repeat(30));
        assert_eq!(bars[1], format!("{}{}", "█".repeat(15), "░".repeat(15)));
        assert_eq!(bars[2], format!("█{}", "░".repeat(29)));
        assert_eq!(bars[3], "░".repeat(30));
    }

    #[test]
    fn cents_are_dollars() {
        assert_eq!([0, 5, 1234, -250].map(dollars), ["$0.00", "$0.05", "$12.34", "-$2.50"]);
    }
}
