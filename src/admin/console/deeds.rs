//! The changes that the pages offer: each is one request to the operator's API.

use axum::http::Method;
use domain::operator::OperatorRole;
use domain::service_pause::ServicePart;
use serde_json::{Map, Value, json};

/// The parameters of a question: the values of its link, then of its form.
pub type Parameters = Vec<(String, String)>;

/// A change that the pages offer.
#[derive(Debug)]
pub struct Deed {
    /// Its name in addresses.
    pub name: &'static str,
    /// Method of the request.
    pub method: Method,
    /// Route of the request; `{name}` is a parameter.
    pub route: &'static str,
    /// The role that the request needs.
    pub role: OperatorRole,
    /// Label of the button; `{name}` is a parameter.
    pub verb: &'static str,
    /// The object; `{name}` is a parameter.
    pub object: &'static str,
    /// The effect of the change, in sentences.
    pub effect: &'static str,
    /// Fields of the form, without the reason.
    pub fields: &'static [Field],
    /// Parameters that the body repeats, without the fields.
    pub body: &'static [&'static str],
    /// The present state, as the question shows it.
    pub preview: Preview,
    /// Label and name of the deed that undoes it with the same parameters.
    pub undo: Option<(&'static str, &'static str)>,
}

/// The present state in a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preview {
    /// The question shows none.
    None,
    /// The differences of the configuration.
    Reload,
    /// What another value would do.
    Setting,
    /// The number of events that match.
    Held,
}

/// A field of a form.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Name of the member in the body.
    pub name: &'static str,
    /// Label of the field.
    pub label: &'static str,
    /// A sentence about its values.
    pub hint: &'static str,
    /// The value at first.
    pub value: &'static str,
    /// Whether it is a box to tick.
    pub is_tick: bool,
    /// Whether its values are the parts of the service that can be paused.
    pub is_part: bool,
}

impl Field {
    const fn text(name: &'static str, label: &'static str, hint: &'static str, value: &'static str) -> Self {
        Self { name, label, hint, value, is_tick: false, is_part: false }
    }

    const fn tick(name: &'static str, label: &'static str) -> Self {
        Self { name, label, hint: "", value: "", is_tick: true, is_part: false }
    }

    /// Possible values; none if any text is possible.
    pub fn choices(&self) -> Vec<String> {
        let parts = ServicePart::ALL.iter().filter(|part| self.is_part && **part != ServicePart::Actor);
        parts.map(|part| part.as_str().to_owned()).collect()
    }
}

const LASTS: Field = Field::text("for", "Ends after", "Such as 30m, 2h or 1day. It ends by itself.", "1h");
const REPLACE: Field = Field::tick("replace", "Replace what another operator set");

const PLAIN: Deed = Deed {
    name: "",
    method: Method::POST,
    route: "",
    role: OperatorRole::Operate,
    verb: "",
    object: "",
    effect: "",
    fields: &[],
    body: &[],
    preview: Preview::None,
    undo: None,
};

/// All changes that the pages offer.
pub const DEEDS: &[Deed] = &[
    Deed {
        name: "actor_restart",
        route: "/nodes/{node}/actors/{actor}/restart",
        verb: "Restart",
        object: "{actor} on {node}",
        effect: "The actor finishes its messages and ends, and another is started. Meanwhile senders are refused with 424 and come back. The restart budget stays as it is.",
        ..PLAIN
    },
    Deed {
        name: "actor_kill",
        route: "/nodes/{node}/actors/{actor}/kill",
        role: OperatorRole::Admin,
        verb: "Kill",
        object: "{actor} on {node}",
        effect: "The actor ends at its next await and loses its messages: their senders get an error and send again. Another is started. It needs a sign-in of the last 15 minutes.",
        ..PLAIN
    },
    Deed {
        name: "key_quarantine",
        route: "/keys/{kind}/{key}/quarantine",
        verb: "Quarantine",
        object: "{kind}:{key}",
        effect: "All nodes refuse this key until then. Its actor handles its accepted messages and ends.",
        fields: &[LASTS, REPLACE],
        undo: Some(("Release it", "key_release")),
        ..PLAIN
    },
    Deed {
        name: "key_release",
        route: "/keys/{kind}/{key}/release",
        verb: "Release",
        object: "{kind}:{key}",
        effect: "Each quarantine of this key ends on all nodes. Its next message starts an actor from its row.",
        undo: Some(("Quarantine it again", "key_quarantine")),
        ..PLAIN
    },
    Deed {
        name: "key_restart",
        route: "/keys/{kind}/{key}/restart",
        verb: "Restart",
        object: "{kind}:{key}",
        effect: "Its actor ends, so that the next message starts another from its row. A batch continues within seconds.",
        ..PLAIN
    },
    Deed {
        name: "pause_begin",
        route: "/pauses",
        verb: "Pause",
        object: "a part of the service",
        effect: "Senders are refused with 424 paused and come back. Accepted work is kept, and running batches stop between two items.",
        fields: &[
            Field { is_part: true, ..Field::text("part", "Part", "", "intake") },
            Field::text("scope", "For", "all, account:ID, machine:ID or lane:NAME", "all"),
            LASTS,
            REPLACE,
        ],
        ..PLAIN
    },
    Deed {
        name: "pause_end",
        method: Method::DELETE,
        route: "/pauses/{id}",
        verb: "End",
        object: "the pause of {part} for {scope}",
        effect: "All nodes continue within a second or two.",
        ..PLAIN
    },
    Deed {
        name: "node_drain",
        route: "/nodes/{node}/drain",
        verb: "Drain",
        object: "{node}",
        effect: "The node is unready, and its responses close their connections, so that balancers and clients select another. It does not end.",
        undo: Some(("Put it back", "node_undrain")),
        ..PLAIN
    },
    Deed {
        name: "node_undrain",
        method: Method::DELETE,
        route: "/nodes/{node}/drain",
        verb: "Put back",
        object: "{node}",
        effect: "The node is ready again.",
        undo: Some(("Drain it again", "node_drain")),
        ..PLAIN
    },
    Deed {
        name: "config_reload",
        route: "/config/reload",
        verb: "Reload",
        object: "the configuration of {node}",
        effect: "The node reads its file again. A mistake changes nothing.",
        body: &["node"],
        preview: Preview::Reload,
        ..PLAIN
    },
    Deed {
        name: "config_set",
        method: Method::PUT,
        route: "/config/overrides/{path}",
        verb: "Override",
        object: "{path}",
        effect: "The value is in force on all nodes within a second or two, before file and environment.",
        fields: &[
            Field::text("value", "Value", "As in the configuration file.", ""),
            Field::text("node", "Only on", "Name of a host; all nodes if empty.", ""),
            LASTS,
            Field::tick("until_unset", "Without an end"),
            REPLACE,
        ],
        preview: Preview::Setting,
        undo: Some(("Remove it", "config_unset")),
        ..PLAIN
    },
    Deed {
        name: "config_unset",
        method: Method::DELETE,
        route: "/config/overrides/{path}",
        verb: "Remove",
        object: "the override of {path}",
        effect: "The value of file and environment is in force again within a second or two.",
        body: &["node"],
        ..PLAIN
    },
    Deed {
        name: "held_release",
        route: "/held:release",
        verb: "Release",
        object: "held events",
        effect: "Each event is checked again, and sent if it passes now. The others stay held.",
        preview: Preview::Held,
        ..PLAIN
    },
    Deed {
        name: "held_discard",
        route: "/held:discard",
        verb: "Discard",
        object: "held events",
        effect: "The events are never sent. Their bodies are deleted after the time that the configuration sets.",
        preview: Preview::Held,
        ..PLAIN
    },
    Deed {
        name: "batch_cancel",
        route: "/batches/{id}/cancel",
        verb: "Cancel",
        object: "batch {id}",
        effect: "It ends before its next item. Items with an outcome keep it.",
        ..PLAIN
    },
    Deed {
        name: "mail_retry",
        route: "/mails/{id}/retry",
        verb: "Send",
        object: "mail {id}",
        effect: "It is sent at once, also if it was given up.",
        ..PLAIN
    },
    Deed {
        name: "mail_give_up",
        route: "/mails/{id}/give_up",
        verb: "Give up",
        object: "mail {id}",
        effect: "It is not sent.",
        undo: Some(("Send it after all", "mail_retry")),
        ..PLAIN
    },
    Deed {
        name: "webhook_disable",
        route: "/webhooks/{id}/disable",
        verb: "Disable",
        object: "webhook {id}",
        effect: "Nothing is sent to it until an operator enables it: notifications wait. Its owner sees this and cannot enable it.",
        undo: Some(("Enable it", "webhook_enable")),
        ..PLAIN
    },
    Deed {
        name: "webhook_enable",
        route: "/webhooks/{id}/enable",
        verb: "Enable",
        object: "webhook {id}",
        effect: "Notifications that waited are sent, except those that are too old. If its owner disabled it too, it stays disabled.",
        undo: Some(("Disable it", "webhook_disable")),
        ..PLAIN
    },
    Deed {
        name: "session_end",
        route: "/sessions/{id}/end",
        verb: "End",
        object: "session {id}",
        effect: "The browser is signed out at once, on all nodes. The person can sign in again.",
        ..PLAIN
    },
];

/// A value in an address.
fn encoded(value: &str) -> percent_encoding::PercentEncode<'_> {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC)
}

/// A query string.
pub fn query(parameters: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    pairs.join("&")
}

/// The deed with this name.
pub fn named(name: &str) -> Option<&'static Deed> {
    DEEDS.iter().find(|deed| deed.name == name)
}

/// The value of a parameter, if it is not empty.
pub fn value<'p>(parameters: &'p [(String, String)], name: &str) -> Option<&'p str> {
    let mut named = parameters.iter().filter(|(own, value)| own == name && !value.is_empty());
    named.next_back().map(|(_, value)| value.as_str())
}

impl Deed {
    /// `text` with the parameters in place of their names.
    pub fn filled(text: &str, parameters: &[(String, String)], write: impl Fn(&str) -> String) -> String {
        parameters
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &write(value)))
    }

    /// The question's title, which names the object.
    pub fn title(&self, parameters: &[(String, String)]) -> String {
        let object = Self::filled(self.object, parameters, str::to_owned);
        format!("{} {object}?", self.verb)
    }

    /// Route and body of the request with these parameters; a `DELETE` has its parameters in the query.
    pub fn request(&self, parameters: &[(String, String)]) -> (String, Option<Value>) {
        let route = Self::filled(self.route, parameters, |value| encoded(value).to_string());
        let names = self.fields.iter().map(|field| field.name).chain(self.body.iter().copied()).chain(["reason"]);
        let members: Vec<(&str, &str)> = names.filter_map(|name| Some((name, value(parameters, name)?))).collect();
        if self.method == Method::DELETE {
            return (format!("{route}?{}", query(&members)), None);
        }
        let is_tick = |name: &str| self.fields.iter().any(|field| field.name == name && field.is_tick);
        let until_unset = value(parameters, "until_unset").is_some();
        let members = members.into_iter().filter(|(name, _)| !(until_unset && *name == "for"));
        let typed =
            members.map(|(name, text)| (name.to_owned(), if is_tick(name) { json!(true) } else { json!(text) }));
        (route, Some(Value::Object(typed.collect::<Map<_, _>>())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::ops::{PREFIX, routes};

    fn parameters(pairs: &[(&str, &str)]) -> Parameters {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_change_of_the_api_is_a_deed_with_its_role() {
        let mut changes: Vec<_> = routes()
            .iter()
            .filter(|route| route.act.is_some() && route.method != Method::GET)
            .map(|route| (route.method.to_string(), route.path, route.role))
            .collect();
        let mut deeds: Vec<_> = DEEDS.iter().map(|deed| (deed.method.to_string(), deed.route, deed.role)).collect();
        changes.sort();
        deeds.sort();
        assert_eq!(deeds, changes, "routes of {PREFIX}");
        for deed in DEEDS {
            assert!(deed.undo.is_none_or(|(_, undo)| named(undo).is_some()), "{}", deed.name);
        }
    }

    #[test]
    fn a_request_has_the_values_of_the_form_in_their_places() {
        let given = parameters(&[
            ("path", "limits.x/y"),
            ("value", "7"),
            ("node", ""),
            ("for", "1h"),
            ("until_unset", "true"),
            ("reason", "why"),
        ]);
        let (route, body) = named("config_set").unwrap().request(&given);
        assert_eq!(route, "/config/overrides/limits%2Ex%2Fy");
        assert_eq!(body, Some(json!({ "value": "7", "until_unset": true, "reason": "why" })));
        let (route, body) = named("pause_end").unwrap().request(&parameters(&[("id", "1"), ("reason", "it is over")]));
        assert_eq!((route.as_str(), body), ("/pauses/1?reason=it%20is%20over", None));
        let title = named("actor_restart").unwrap().title(&parameters(&[("actor", "mail"), ("node", "n1")]));
        assert_eq!(title, "Restart mail on n1?");
    }
}
