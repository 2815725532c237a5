//! A request in the languages of the page, written from the description: method, URL, credential and body.

use std::fmt::Write as _;

use serde_json::Value;

/// A request in one language.
#[derive(Debug)]
pub struct CodeSample {
    /// Name of the language in ids and classes.
    pub language: &'static str,
    /// Name of the language for people.
    pub label: &'static str,
    /// Text of the sample program.
    pub code: String,
}

/// The credential of a request; its value is in an environment variable.
#[derive(Debug)]
pub(super) enum Credential {
    /// `Authorization: Bearer …`
    Bearer { variable: &'static str },
    /// The session cookie; requests with unsafe methods contain the server's origin.
    Cookie { name: String, variable: &'static str, origin: String },
}

/// How a successful response is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// One JSON value.
    Json,
    /// Text.
    Text,
    /// A stream of lines.
    Stream,
    /// The response has no body.
    Empty,
}

/// The request that a sample sends.
#[derive(Debug)]
pub(super) struct Call<'c> {
    /// HTTP method, in capitals.
    pub method: &'c str,
    /// URL with its query.
    pub url: &'c str,
    /// The credential, if it takes one.
    pub credential: Option<Credential>,
    /// Media type and example of the body.
    pub body: Option<(&'c str, &'c Value)>,
    /// The kind of the response.
    pub answer: AnswerKind,
}

const FORM: &str = "application/x-www-form-urlencoded";

impl Call<'_> {
    /// The request in every language of the page.
    pub fn samples(&self) -> Vec<CodeSample> {
        vec![
            CodeSample { language: "curl", label: "curl", code: self.curl() },
            CodeSample { language: "python", label: "Python", code: self.python() },
            CodeSample { language: "typescript", label: "TypeScript", code: self.typescript() },
        ]
    }

    fn curl(&self) -> String {
        let mut lines = vec![match (self.answer, self.method, self.body) {
            (AnswerKind::Stream, ..) => format!("curl -N {}", shell(self.url)),
            (_, "GET", _) | (_, "POST", Some(_)) => format!("curl {}", shell(self.url)),
            _ => format!("curl -X {} {}", self.method, shell(self.url)),
        }];
        match &self.credential {
            Some(Credential::Bearer { variable }) => lines.push(format!("-H \"Authorization: Bearer ${variable}\"")),
            Some(Credential::Cookie { name, variable, origin }) => {
                lines.push(format!("-b \"{name}=${variable}\""));
                if self.method != "GET" {
                    lines.push(format!("-H {}", shell(&format!("Origin: {origin}"))));
                }
            }
            None => {}
        }
        match self.body {
            Some((FORM, example)) => {
                lines.extend(
                    pairs(example)
                        .map(|(name, value)| format!("--data-urlencode {}", shell(&format!("{name}={value}")))),
                );
            }
            Some((kind, example)) => {
                lines.push(format!("-H {}", shell(&format!("Content-Type: {kind}"))));
                lines.push(format!("-d {}", shell(&format!("{example:#}"))));
            }
            None => {}
        }
        lines.join(" \\\n  ")
    }

    fn python(&self) -> String {
        let mut modules = vec!["urllib.request"];
        let mut arguments = vec![python(&Value::from(self.url), 1)];
        let usual = if self.body.is_some() { "POST" } else { "GET" };
        if self.method != usual {
            arguments.push(format!("method=\"{}\"", self.method));
        }
        match self.body {
            Some((FORM, example)) => {
                modules.push("urllib.parse");
                arguments.push(format!("data=urllib.parse.urlencode({}).encode()", python(example, 1)));
            }
            Some((_, example)) => {
                modules.push("json");
                arguments.push(format!("data=json.dumps({}).encode()", python(example, 1)));
            }
            None => {}
        }
        let mut headers = Vec::new();
        match &self.credential {
            Some(Credential::Bearer { variable }) => {
                headers.push(format!("\"Authorization\": \"Bearer \" + os.environ[\"{variable}\"]"));
            }
            Some(Credential::Cookie { name, variable, origin }) => {
                headers.push(format!("\"Cookie\": \"{name}=\" + os.environ[\"{variable}\"]"));
                if self.method != "GET" {
                    headers.push(format!("\"Origin\": \"{origin}\""));
                }
            }
            None => {}
        }
        if self.credential.is_some() {
            modules.push("os");
        }
        if let Some((kind, _)) = self.body.filter(|(kind, _)| *kind != FORM) {
            headers.push(format!("\"Content-Type\": \"{kind}\""));
        }
        if !headers.is_empty() {
            arguments.push(format!("headers={{\n        {},\n    }}", headers.join(",\n        ")));
        }
        let read = match self.answer {
            AnswerKind::Json => {
                modules.push("json");
                "    print(json.load(response))"
            }
            AnswerKind::Text => "    print(response.read().decode())",
            AnswerKind::Stream => "    for line in response:\n        print(line.decode(), end=\"\")",
            AnswerKind::Empty => "    print(response.status)",
        };
        modules.sort_unstable();
        modules.dedup();
        format!(
            "import {}\n\nrequest = urllib.request.Request(\n    {},\n)\nwith urllib.request.urlopen(request) as response:\n{read}",
            modules.join(", "),
            arguments.join(",\n    "),
        )
    }

    fn typescript(&self) -> String {
        let mut options = Vec::new();
        if self.method != "GET" {
            options.push(format!("method: \"{}\"", self.method));
        }
        let mut headers = Vec::new();
        match &self.credential {
            Some(Credential::Bearer { variable }) => {
                headers.push(format!("Authorization: `Bearer ${{process.env.{variable}}}`"));
            }
            Some(Credential::Cookie { name, variable, origin }) => {
                headers.push(format!("Cookie: `{name}=${{process.env.{variable}}}`"));
                if self.method != "GET" {
                    headers.push(format!("Origin: \"{origin}\""));
                }
            }
            None => {}
        }
        if let Some((kind, _)) = self.body.filter(|(kind, _)| *kind != FORM) {
            headers.push(format!("\"Content-Type\": \"{kind}\""));
        }
        if !headers.is_empty() {
            options.push(format!("headers: {{\n    {},\n  }}", headers.join(",\n    ")));
        }
        match self.body {
            Some((FORM, example)) => {
                options.push(format!("body: new URLSearchParams({})", indented(&format!("{example:#}"), 1)));
            }
            Some((_, example)) => {
                options.push(format!("body: JSON.stringify({})", indented(&format!("{example:#}"), 1)));
            }
            None => {}
        }
        let options =
            if options.is_empty() { String::new() } else { format!(", {{\n  {},\n}}", options.join(",\n  ")) };
        let read = match self.answer {
            AnswerKind::Json => "console.log(response.status, await response.json());",
            AnswerKind::Text => "console.log(response.status, await response.text());",
            AnswerKind::Stream => {
                "const text = response.body!.pipeThrough(new TextDecoderStream());\nfor await (const part of text) console.log(part);"
            }
            AnswerKind::Empty => "console.log(response.status);",
        };
        format!("const response = await fetch({}{options});\n{read}", Value::from(self.url))
    }
}

/// A word for a shell, in quotes unless it is plain.
fn shell(word: &str) -> String {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/:.-_".contains(&byte));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The fields of a form.
fn pairs(example: &Value) -> impl Iterator<Item = (&str, String)> {
    let members = example.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
}

/// A text of several lines inside code that is indented by steps of two spaces.
fn indented(text: &str, steps: usize) -> String {
    text.replace('\n', &format!("\n{}", "  ".repeat(steps)))
}

/// A JSON value as a Python literal, inside code that is indented by steps of four spaces.
fn python(value: &Value, steps: usize) -> String {
    let (inner, outer) = ("    ".repeat(steps + 1), "    ".repeat(steps));
    let mut text = String::new();
    let written = match value {
        Value::Null => text.write_str("None"),
        Value::Bool(true) => text.write_str("True"),
        Value::Bool(false) => text.write_str("False"),
        Value::Array(items) if items.is_empty() => text.write_str("[]"),
        Value::Object(members) if members.is_empty() => text.write_str("{}"),
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{inner}{},\n", python(item, steps + 1))).collect();
            write!(text, "[\n{}{outer}]", items.concat())
        }
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<String> = members
                .map(|(name, value)| format!("{inner}{}: {},\n", Value::from(name.as_str()), python(value, steps + 1)))
                .collect();
            write!(text, "{{\n{}{outer}}}", members.concat())
        }
        Value::Number(_) | Value::String(_) => write!(text, "{value}"),
    };
    // Writing to a string cannot fail.
    let _ = written;
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn codes(call: &Call<'_>) -> [String; 3] {
        let codes: Vec<String> = call.samples().into_iter().map(|sample| sample.code).collect();
        codes.try_into().unwrap()
    }

    #[test]
    fn a_call_with_a_bearer_and_a_body_is_written_in_each_language() {
        let body = json!({ "query": "it's here", "limit": null, "is": [true] });
        let call = Call {
            method: "POST",
            url: "https://a.example/v1/search",
            credential: Some(Credential::Bearer { variable: "API_KEY" }),
            body: Some(("application/json", &body)),
            answer: AnswerKind::Json,
        };
        let [curl, python, typescript] = codes(&call);
        assert_eq!(
            curl,
            "curl https://a.example/v1/search \\\n  -H \"Authorization: Bearer $API_KEY\" \\\n  -H 'Content-Type: application/json' \\\n  \
             -d '{\n  \"is\": [\n    true\n  ],\n  \"limit\": null,\n  \"query\": \"it'\\''s here\"\n}'"
        );
        assert_eq!(
            python,
            "import json, os, urllib.request\n\nrequest = urllib.request.Request(\n    \"https://a.example/v1/search\",\n    \
             data=json.dumps({\n        \"is\": [\n            True,\n        ],\n        \"limit\": None,\n        \
             \"query\": \"it's here\",\n    }).encode(),\n    headers={\n        \
             \"Authorization\": \"Bearer \" + os.environ[\"API_KEY\"],\n        \"Content-Type\": \"application/json\",\n    },\n)\n\
             with urllib.request.urlopen(request) as response:\n    print(json.load(response))"
        );
        assert_eq!(
            typescript,
            "const response = await fetch(\"https://a.example/v1/search\", {\n  method: \"POST\",\n  headers: {\n    \
             Authorization: `Bearer ${process.env.API_KEY}`,\n    \"Content-Type\": \"application/json\",\n  },\n  \
             body: JSON.stringify({\n    \"is\": [\n      true\n    ],\n    \"limit\": null,\n    \"query\": \"it's here\"\n  }),\n});\n\
             console.log(response.status, await response.json());"
        );
    }

    #[test]
    fn a_cookie_brings_its_origin_with_every_change() {
        let cookie = || Credential::Cookie {
            name: "a.session_token".into(),
            variable: "SESSION",
            origin: "https://a.example".into(),
        };
        let call = |method| Call {
            method,
            url: "https://a.example/x?y=Z",
            credential: Some(cookie()),
            body: None,
            answer: AnswerKind::Empty,
        };
        let [curl, python, typescript] = codes(&call("DELETE"));
        assert_eq!(
            curl,
            "curl -X DELETE 'https://a.example/x?y=Z' \\\n  -b \"a.session_token=$SESSION\" \\\n  -H 'Origin: https://a.example'"
        );
        assert!(
            python.contains("\"Origin\": \"https://a.example\"") && python.contains("method=\"DELETE\""),
            "{python}"
        );
        assert!(typescript.contains("Origin: \"https://a.example\""), "{typescript}");
        assert!(codes(&call("GET")).iter().all(|code| !code.contains("Origin")));
    }

    #[test]
    fn a_form_is_encoded_and_a_stream_is_read_as_it_comes() {
        let body = json!({ "grant_type": "a b" });
        let call = Call {
            method: "POST",
            url: "https://a.example/",
            credential: None,
            body: Some((FORM, &body)),
            answer: AnswerKind::Stream,
        };
        let [curl, python, typescript] = codes(&call);
        assert_eq!(curl, "curl -N https://a.example/ \\\n  --data-urlencode 'grant_type=a b'");
        assert!(python.contains("urllib.parse.urlencode({") && python.contains("for line in response"), "{python}");
        assert!(typescript.contains("new URLSearchParams({") && !typescript.contains("headers"), "{typescript}");
    }
}
