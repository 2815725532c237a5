//! The pictures of the documents: `make pictures` takes them from a server with a month of events, and writes the recording of a terminal.
//!
//! Without `ATTACHE_WRITE_PICTURES` the test only checks that documents and files agree.

mod recording;
pub mod seed;

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use self::seed::Seeded;
use crate::browser::{Browser, Screen};

/// Names of the pictures; `docs/pictures/<name>-light.png` and `-dark.png` are taken.
const PICTURES: [&str; 9] =
    ["account", "activity", "claim", "consent", "device", "event", "knowledge", "operator", "session"];

/// Largest file, in bytes.
const BYTES_MAX: u64 = 150_000;

/// Width and height of a picture, in pixels.
const SIZE: (u32, u32) = (1280, 860);

/// Time for the scripts of a page.
const SETTLED: Duration = Duration::from_secs(2);

fn folder() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("docs/pictures")
}

fn files_of(name: &str) -> [String; 2] {
    ["light", "dark"].map(|theme| format!("{name}-{theme}.png"))
}

fn is_picture(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "png")
}

/// Names of PNG files in a text that follow `before`.
fn named(text: &str, before: &str) -> BTreeSet<String> {
    let parts = text.split(before).skip(1).filter_map(|rest| rest.split(['"', ')']).next());
    parts.filter(|name| is_picture(name) && !name.contains('/')).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pictures_of_the_documents_are_those_that_are_taken() {
    if env::var_os("ATTACHE_WRITE_PICTURES").is_some() {
        Box::pin(take()).await;
        std::fs::write(folder().join("tour.svg"), recording::record().await).unwrap();
    }
    let taken: BTreeSet<String> = PICTURES.iter().flat_map(|name| files_of(name)).collect();
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap());
    let mut stored = BTreeSet::new();
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        if is_picture(&name) {
            let bytes = entry.metadata().unwrap().len();
            assert!(bytes <= BYTES_MAX, "{name} has {bytes} bytes");
            stored.insert(name);
        }
    }
    assert_eq!(stored, taken, "`make pictures` takes them");
    let root = folder().join("../..");
    let readme = named(&std::fs::read_to_string(root.join("README.md")).unwrap(), "docs/pictures/");
    assert!(readme.len() >= 6 && readme.is_subset(&taken), "{readme:?}");
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let page: BTreeSet<_> = named(&page, "srcset=\"").union(&named(&page, "src=\"")).cloned().collect();
    assert_eq!(page, taken, "docs/pictures/README.md shows all");
    for drawn in ["overview.svg", "tour.svg"] {
        let text = std::fs::read_to_string(folder().join(drawn)).unwrap();
        assert!(text.contains("prefers-color-scheme: dark") && text.contains("<title"), "{drawn}");
    }
}

/// Takes all pictures.
async fn take() {
    let seeded = Seeded::new().await;
    let browser = Browser::open(&seeded.world, Screen::Desktop, "pictures").await.unwrap();
    browser.signed_in(&seeded.person).await;
    browser.resize(SIZE.0, SIZE.1).await;
    // The server's clock was moved: the browser's follows it, for times that scripts keep true.
    let ahead = seeded.world.clock().now().timestamp_millis() - domain::Clock::system().now().timestamp_millis();
    let source = format!("const now = Date.now; Date.now = () => now() + {ahead};");
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": source })).await;
    seeded.work().await;
    for name in PICTURES {
        browser.visit(&seeded.address(name)).await;
        // Scripts compute a proof, and count new events.
        tokio::time::sleep(SETTLED).await;
        for (theme, file) in ["light", "dark"].into_iter().zip(files_of(name)) {
            let features = json!([
                { "name": "prefers-color-scheme", "value": theme },
                { "name": "prefers-reduced-motion", "value": "reduce" },
            ]);
            browser.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
            let taken = browser.devtools("Page.captureScreenshot", json!({ "format": "png" })).await;
            let picture = STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
            std::fs::write(folder().join(file), picture).unwrap();
        }
    }
    browser.close().await;
    seeded.world.server.stop().await;
}
