//! What another value of a setting does with the present numbers, in words for an operator who is about to set it.

use serde_json::Value;
use supervision::root::Node;

/// Number of actors that a sentence names.
const NAMED_MAX: usize = 3;

/// A sentence such as `300 → 100: 312 messages wait in append; its senders get 424 until 213 are done`. `tree` are the actors of this node.
pub fn effect(path: &str, before: &Value, after: &Value, tree: &Node) -> String {
    if before == after {
        return format!("{after}, as now");
    }
    let change = format!("{before} → {after}");
    let Some(number) = after.as_u64() else { return change };
    let Some((kind, compared)) = compared(path, tree) else {
        return if path.starts_with("limits.") {
            format!("{change}: the counts of all clients start from nothing")
        } else {
            change
        };
    };
    let concerned = tree.children.iter().filter(|child| kind.is_none_or(|kind| child.kind == kind));
    let mut sentences: Vec<(u64, String)> = concerned.filter_map(|child| sentence(child, compared, number)).collect();
    sentences.sort_by(|(one, _), (other, _)| other.cmp(one));
    let more = sentences.len().saturating_sub(NAMED_MAX);
    let mut words: Vec<String> = sentences.into_iter().take(NAMED_MAX).map(|(_, words)| words).collect();
    if more > 0 {
        words.push(format!("{more} more actors"));
    }
    if words.is_empty() {
        words.push(format!("no actor {}", compared.reached()));
    }
    format!("{change}: {}", words.join("; "))
}

/// A setting that is compared with a number of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Queue,
    Live,
    Restarts,
}

impl Compared {
    fn reached(self) -> &'static str {
        match self {
            Self::Queue => "has as many messages now",
            Self::Live => "is of a kind with as many actors now",
            Self::Restarts => "has used its restarts up",
        }
    }
}

/// The kind of actor in `actors.<kind>.<setting>`, if the path names one, and the number for comparison.
fn compared<'p>(path: &'p str, tree: &Node) -> Option<(Option<&'p str>, Compared)> {
    let rest = path.strip_prefix("actors.")?;
    let own = rest.split_once('.').filter(|(kind, _)| tree.children.iter().any(|child| child.kind == *kind));
    let (kind, name) = own.map_or((None, rest), |(kind, name)| (Some(kind), name));
    let compared = match name {
        "queue_max" => Compared::Queue,
        "live_max" => Compared::Live,
        "restart.restarts_max" => Compared::Restarts,
        _ => return None,
    };
    Some((kind, compared))
}

/// The meaning of the new number for one actor, with the size of the effect; `None` if it has none now.
fn sentence(Node { name, queued, live, budget, .. }: &Node, compared: Compared, number: u64) -> Option<(u64, String)> {
    let over = |present: u64| present.checked_sub(number).map(|over| over + 1);
    match compared {
        Compared::Queue if *live <= 1 => {
            let ends = over(*queued)?;
            Some((ends, format!("{queued} messages wait in {name}; its senders get 424 until {ends} are done")))
        }
        Compared::Live => {
            let ends = over(*live)?;
            Some((ends, format!("{live} actors of {name} live; no further one is started until {ends} have ended")))
        }
        Compared::Restarts => {
            let left = u64::from(budget.filter(|budget| budget.more_in_ms.is_some())?.restarts_left);
            Some((0, format!("{name} has {left} restarts left now; its next failure is judged by the new number")))
        }
        Compared::Queue => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use supervision::root::{Budget, Role, Status};

    use super::*;

    fn child(kind: &'static str, (live, queued): (u64, u64)) -> Node {
        Node {
            name: kind.to_owned(),
            kind: kind.into(),
            role: Role::Singleton,
            status: Status::Running,
            restarts: 0,
            budget: Some(Budget { restarts_left: 7, more_in_ms: (kind == "mail").then_some(9) }),
            restarts_in_ms: None,
            failures: Vec::new(),
            failing: None,
            pass: None,
            live,
            queued,
            unmoved_ms: None,
            oldest_ms: None,
            quarantined: 0,
            times: None,
            busiest: Vec::new(),
            children: Vec::new(),
        }
    }

    #[test]
    fn the_present_numbers_say_what_a_value_does() {
        let children = vec![
            child("append", (1, 312)),
            child("claims", (40, 90)),
            child("mail", (1, 0)),
            child("lookup", (1, 100)),
        ];
        let tree = Node { children, ..child("root", (0, 0)) };
        let words = |path: &str, after: Value| effect(path, &json!(8192), &after, &tree);
        assert_eq!(
            words("actors.append.queue_max", json!(100)),
            "8192 → 100: 312 messages wait in append; its senders get 424 until 213 are done"
        );
        assert_eq!(
            words("actors.queue_max", json!(100)),
            "8192 → 100: 312 messages wait in append; its senders get 424 until 213 are done; 100 messages wait in lookup; its senders get 424 until 1 are done"
        );
        assert_eq!(words("actors.append.queue_max", json!(313)), "8192 → 313: no actor has as many messages now");
        assert_eq!(
            words("actors.claims.live_max", json!(30)),
            "8192 → 30: 40 actors of claims live; no further one is started until 11 have ended"
        );
        assert_eq!(
            words("actors.restart.restarts_max", json!(3)),
            "8192 → 3: mail has 7 restarts left now; its next failure is judged by the new number"
        );
        assert_eq!(words("actors.append.queue_max", json!(8192)), "8192, as now");
        assert_eq!(words("actors.ask_deadline", json!("3s")), "8192 → \"3s\"");
        assert_eq!(words("limits.x", json!(3)), "8192 → 3: the counts of all clients start from nothing");
    }
}
