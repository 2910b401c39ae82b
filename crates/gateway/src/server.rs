//! The listener's loop.

use std::sync::Arc;

use fader_node::Node;
use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use crate::Settings;

/// One front door of a node. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Gateway {
    _inner: Arc<(Node, Settings)>,
}

impl Gateway {
    /// A gateway to `node`.
    pub fn new(node: Node, settings: Settings) -> Gateway {
        Gateway { _inner: Arc::new((node, settings)) }
    }

    /// Serves `listener` until `stop` turns true, then lets running requests end for up to
    /// `shutdown_grace`.
    ///
    /// # Errors
    /// What the listener itself fails with; a failing connection ends alone.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let _ = (listener, tls, stop);
        unimplemented!()
    }

    /// Serves the administrator's socket until `stop` turns true. Whoever may open the socket's
    /// file is the administrator: its modes are the protection.
    ///
    /// # Errors
    /// What the listener itself fails with; a failing connection ends alone.
    pub async fn serve_control(
        &self,
        listener: UnixListener,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let _ = (listener, stop);
        unimplemented!()
    }
}
