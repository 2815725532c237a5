//! Server-sent events, as the client reads them.

use bytes::Bytes;
use futures_util::StreamExt;
use sse_stream::SseByteStream;
use wire::knowledge::BatchMessage;

/// Reads a stream in pieces of this length and returns the result.
async fn read(text: &[u8], length: usize) -> Vec<String> {
    let pieces: Vec<std::io::Result<Bytes>> =
        text.chunks(length).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let messages = SseByteStream::new(futures_util::stream::iter(pieces));
    let value = messages.map(|message| {
        if let Ok(data) = message.as_ref().map(|message| message.data.as_deref().unwrap_or_default()) {
            let _ = serde_json::from_str::<BatchMessage>(data);
        }
        message.map_or_else(|_| "broken".to_owned(), |message| format!("{message:?}"))
    });
    value.collect().await
}

#[test]
fn sse_soak() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let words = &[
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        ":",
        "data",
        "data:",
        "data: ",
        "id: ",
        "event:",
        "retry: ",
        "\u{feff}",
        "\0",
        "{\"type\":\"complete\"}",
    ];
    fuzz::run("sse", words, |text| {
        let whole = runtime.block_on(read(text, text.len().max(1)));
        for length in [1, 2, 7] {
            assert_eq!(runtime.block_on(read(text, length)), whole, "in pieces of {length} bytes");
        }
    });
}
