//! A statistics service that accepts and discards all events, so that only the product's cost of forwarding is measured.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::options::Result;

/// Maximum length of a request's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Serves until killed, and prints its address. One thread, because it shares the cores with the measured server.
pub fn run(delay: Duration) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?);
        for number in 0_u64.. {
            let (stream, _) = listener.accept().await?;
            // Connection failures are reported by the product.
            tokio::spawn(async move { serve(stream, delay, number << 32).await.ok() });
        }
        Ok(())
    })
}

/// Responds to every request of a connection with a new receipt.
async fn serve(mut stream: TcpStream, delay: Duration, first_receipt: u64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 * 1024);
    for number in first_receipt.. {
        buffer.clear();
        loop {
            if stream.read_buf(&mut buffer).await? == 0 || buffer.len() > HEAD_BYTES_MAX {
                return Ok(());
            }
            if request_bytes(&buffer)?.is_some_and(|length| buffer.len() >= length) {
                break;
            }
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let body = format!(r#"{{"receipt_id":"{}"}}"#, receipt(number));
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await?;
    }
    Ok(())
}

/// Length of the request in the buffer, with its body; `None` if it is not known yet.
fn request_bytes(bytes: &[u8]) -> std::io::Result<Option<usize>> {
    let mut fields = [httparse::EMPTY_HEADER; 48];
    let mut head = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(length) = head.parse(bytes).map_err(std::io::Error::other)? else { return Ok(None) };
    let field = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let text = field.map_or("0", |field| std::str::from_utf8(field.value).unwrap_or_default());
    let body: usize = text.parse().map_err(std::io::Error::other)?;
    Ok(Some(length + body))
}

fn receipt(number: u64) -> uuid::Uuid {
    let mut tail = [0; 10];
    tail[2..].copy_from_slice(&number.to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(1_767_225_600_000, &tail).into_uuid()
}
