//! Heads of replies, whole, in pieces and malformed; exchanges with servers that misbehave.

use super::*;
use tokio::net::TcpListener;

#[test]
fn heads() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length:  5 \r\ndate: x:y\r\n\r\nhello";
    let expected = Head {
        status: 200,
        size: head.len() - 5,
        body_size: 5,
        is_last: false,
        reason: None,
    };
    assert_eq!(parse_head(head).unwrap(), Some(expected));
    for end in 0..head.len() - 5 {
        assert_eq!(parse_head(&head[..end]).unwrap(), None, "{end}");
    }
    for last in [
        "HTTP/1.0 404 x\r\n",
        "HTTP/1.1 404 x\r\nConnection: Close\r\n",
    ] {
        let head = parse_head(format!("{last}content-length: 0\r\n\r\n").as_bytes()).unwrap();
        assert!(
            head.is_some_and(|head| head.is_last && head.status == 404),
            "{last}"
        );
    }
}

/// It shows MCONN-1.
#[test]
fn malformed_heads() {
    for head in [
        "\r\n\r\n",
        "HTTP/2 200\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ] {
        assert!(parse_head(head.as_bytes()).is_err(), "{head:?}");
    }
    assert!(parse_head(&[b'x'; HEAD_BYTES_MAX]).is_err());
}

/// Answers one connection after the other: each with these pieces, then closes.
async fn serve(listener: TcpListener, replies: Vec<&'static [&'static str]>) {
    for pieces in replies {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4];
        stream.read_exact(&mut request).await.unwrap();
        for piece in pieces {
            stream.write_all(piece.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
    }
}

/// It shows MCONN-2.
#[tokio::test]
async fn exchanges() {
    let replies: Vec<&'static [&'static str]> = vec![
        &[
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-",
            "length: 4\r\n\r\nab",
            "cd",
        ],
        &["HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab"],
        &[],
        &["HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab"],
        &["HTTP/1.1 503 Busy\r\nX-Fader-Reason: no-member\r\ncontent-length: 0\r\n\r\n"],
    ];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut connection = Connection::new(listener.local_addr().unwrap());
    let server = tokio::spawn(serve(listener, replies));
    let reply = connection.exchange(b"ping").await.unwrap();
    assert_eq!(
        reply,
        Reply {
            status: 200,
            reason: None,
            body: b"abcd"
        }
    );
    for _ in 0..3 {
        assert!(connection.exchange(b"ping").await.is_err());
    }
    let reply = connection.exchange(b"ping").await.unwrap();
    assert_eq!(
        reply,
        Reply {
            status: 503,
            reason: Some("no-member".to_owned()),
            body: b""
        }
    );
    server.await.unwrap();
}
