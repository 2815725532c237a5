//! HTTP clients with TLS. They trust the certificate authorities of the system, or, on a system without any such as a minimal
//! container, the built-in Mozilla list.

use std::sync::OnceLock;

use reqwest::{Certificate, ClientBuilder};

/// Builds a client with the TLS provider of this process. Every client of this server uses this builder.
pub fn builder() -> ClientBuilder {
    // Fails if the process already has a provider, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder();
    match built_in() {
        [] => builder,
        roots => builder.tls_certs_only(roots.iter().cloned()),
    }
}

/// The built-in certificate authorities; empty if the machine has its own, or an operating system that verifies certificates.
fn built_in() -> &'static [Certificate] {
    static ROOTS: OnceLock<Vec<Certificate>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        if cfg!(any(windows, target_vendor = "apple")) || !rustls_native_certs::load_native_certs().certs.is_empty() {
            return Vec::new();
        }
        tracing::warn!(
            "this machine has no CA certificates, so the built-in ones of Mozilla are used. They are as old as this program: install the \
             package ca-certificates, or set SSL_CERT_FILE"
        );
        // The list contains only valid certificates, so `filter_map` drops none.
        webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().filter_map(|root| Certificate::from_der(root).ok()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_trusts_every_built_in_certificate() {
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        assert!(roots.len() > 100);
        let certificates: Vec<Certificate> = roots.iter().map(|root| Certificate::from_der(root).unwrap()).collect();
        builder().tls_certs_only(certificates).build().unwrap();
    }
}
