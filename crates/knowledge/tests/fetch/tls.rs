//! Trusted and untrusted TLS servers.

use std::net::Ipv4Addr;
use std::sync::Arc;

use domain::item::Fault;
use domain::{Clock, Rng};
use knowledge::fetch::{FetchError, FetchSettings, Fetcher, FetcherDependencies, RobotsRule};
use reqwest::Certificate;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::site::{Names, Request, Site, Step, Trap, page, redirect};
use crate::{fetch, settings_for};

/// A site with a certificate for `secure.example`, and that certificate.
async fn secure(script: impl Fn(&Request, usize) -> Vec<Step> + Send + Sync + 'static) -> (Site, Certificate) {
    let made = rcgen::generate_simple_self_signed(["secure.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let chain = vec![made.cert.der().clone()];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    let site = Site::start_tls(TlsAcceptor::from(Arc::new(config)), script).await;
    (site, Certificate::from_der(made.cert.der()).unwrap())
}

fn fetcher(settings: FetchSettings, roots: Vec<Certificate>) -> Fetcher {
    let names = Names::default().with("secure.example", &[&["127.0.0.1"]]).with("other.example", &[&["127.0.0.1"]]);
    let rng = Rng::seeded(1);
    let surroundings = FetcherDependencies {
        resolver: Arc::new(names),
        roots,
        ..FetcherDependencies::system("", Clock::system(), rng)
    };
    Fetcher::new(settings, surroundings).unwrap()
}

#[tokio::test]
async fn only_certificates_that_are_trusted_and_name_the_host_are_taken() {
    let (site, certificate) = secure(|_, _| page("hello")).await;
    let url = format!("https://secure.example:{}/", site.port());
    let trusting = fetcher(settings_for(&site), vec![certificate]);
    fetch(&trusting, &url).await.unwrap();
    for (fetcher, url) in [
        (&trusting, format!("https://other.example:{}/", site.port())),
        (&trusting, format!("https://127.0.0.1:{}/", site.port())),
        (&fetcher(settings_for(&site), vec![]), url),
    ] {
        let error = fetch(fetcher, &url).await.unwrap_err();
        assert_eq!((error.fault(), error), (Some(Fault::TlsFailed), FetchError::Untrusted), "{url}");
    }
    assert_eq!(site.requests().len(), 1);
}

#[tokio::test]
async fn tls_with_a_server_that_speaks_none_fails() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    let settings = FetchSettings {
        ports: vec![address.port()],
        allow_private: vec!["127.0.0.0/8".parse().unwrap()],
        robots: RobotsRule::Ignore,
        ..FetchSettings::default()
    };
    let error = fetch(&fetcher(settings, vec![]), &format!("https://{address}/")).await.unwrap_err();
    assert_eq!(error.fault(), Some(Fault::TlsFailed));
    answering.abort();
}

#[tokio::test]
async fn redirects_lead_from_http_to_https_and_never_back() {
    let trap = Trap::set().await;
    let down = format!("http://secure.example:{}/", trap.port());
    let (site, certificate) = secure(move |request, _| match request.target.as_str() {
        "/down" => redirect(&down),
        _ => page("hello"),
    })
    .await;
    let (up, up_and_down) =
        (format!("https://secure.example:{}/", site.port()), format!("https://secure.example:{}/down", site.port()));
    let plain = Site::start(move |request, _| match request.target.as_str() {
        "/up" => redirect(&up),
        _ => redirect(&up_and_down),
    })
    .await;
    let settings = FetchSettings { ports: vec![site.port(), plain.port(), trap.port()], ..settings_for(&site) };
    let fetcher = fetcher(settings, vec![certificate]);
    fetch(&fetcher, &plain.url("/up")).await.unwrap();
    for url in [plain.url("/up-and-down"), format!("https://secure.example:{}/down", site.port())] {
        let error = fetch(&fetcher, &url).await.unwrap_err();
        assert_eq!((error.fault(), error), (Some(Fault::TooManyRedirects), FetchError::Downgrade), "{url}");
    }
    trap.assert_untouched().await;
}
