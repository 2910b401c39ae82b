//! The suite by which the `object_store` crate judges stores, against Fader: each of its functions
//! in a bucket of its own.
//!
//! Deliberately absent: copies on the condition that there is no destination, which this client
//! leaves out, and multipart uploads and pages below the trait.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use fader_client::{Bucket, Credentials, Http, Settings};
use fader_gateway::Gateway;
use fader_node::{Call, Node, Secret};
use fader_services::catalog::{AccountId, KeyNature};
use fader_services::level::ConsistencyOptions;
use fader_services::request::own;
use fader_services::s3::command::CreateBucket;
use fader_services::s3::{Command, Request, S3};
use object_store::integration;
use object_store::path::Path;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const KEY_ID: &str = "AKIDEXAMPLE01234";
const KEY_SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// A server with one access key; its data goes when it does.
struct Server {
    node: Node,
    endpoint: String,
    stop: watch::Sender<bool>,
    served: JoinHandle<std::io::Result<()>>,
    _data: tempfile::TempDir,
}

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

impl Server {
    async fn start() -> Server {
        let data = tempfile::tempdir().unwrap();
        let (node, _) = Node::open(fader_node::Settings::new(data.path().join("data"))).unwrap();
        let pair = Some((KEY_ID.to_owned(), Secret::new(KEY_SECRET.to_owned())));
        let nature = KeyNature::default();
        let created = node.create_key(&account(), pair, "test", nature).await;
        created.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let gateway = Gateway::new(node.clone(), fader_gateway::Settings::default());
        let (stop, stopped) = watch::channel(false);
        let served = tokio::spawn(async move { gateway.serve(listener, None, stopped).await });
        Server {
            node,
            endpoint,
            stop,
            served,
            _data: data,
        }
    }

    /// A new bucket.
    async fn bucket(&self, name: &str) -> Bucket {
        let command = Command::CreateBucket(CreateBucket {
            bucket: name.to_owned(),
            region: "us-east-1".to_owned(),
            ..CreateBucket::default()
        });
        let request = Request::of(&account(), rand::random(), command);
        let call = Call::new(&account(), request, ConsistencyOptions::default());
        own::<S3>(self.node.call(call).await.0).unwrap();
        let credentials = Credentials::new(KEY_ID, KEY_SECRET);
        let settings = Settings::default();
        let http = Http::shared();
        Bucket::s3(http, &self.endpoint, name, Some(&credentials), &settings).unwrap()
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.served.await.unwrap().unwrap();
        self.node.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_put_read_and_listed() {
    let server = Server::start().await;
    integration::put_get_delete_list(&server.bucket("basics").await).await;
    integration::put_get_attributes(&server.bucket("attributes").await).await;
    integration::get_opts(&server.bucket("get-options").await).await;
    integration::stream_get(&server.bucket("streams").await).await;
    integration::list_uses_directories_correctly(&server.bucket("folders").await).await;
    integration::list_with_delimiter(&server.bucket("delimiters").await).await;
    integration::list_with_offset_exclusivity(&server.bucket("offsets").await).await;
    let none = server.bucket("nothing").await;
    let missing = integration::get_nonexistent_object(&none, Some(Path::from("a"))).await;
    let error = missing.unwrap_err();
    assert!(error.to_string().contains("not found"), "{error}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_hold_their_conditions() {
    let server = Server::start().await;
    integration::put_opts(&server.bucket("put-options").await, true).await;
    integration::rename_and_copy(&server.bucket("copies").await).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_race_and_come_in_any_order() {
    let server = Server::start().await;
    integration::multipart_race_condition(&server.bucket("races").await, true).await;
    integration::multipart_out_of_order(&server.bucket("out-of-order").await).await;
    server.stop().await;
}
