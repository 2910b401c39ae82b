//! `fader cluster diagnose`: what a chain waits for, and for whom.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use fader_client::WaitScope;
use fader_node::coordinator::ZooKeeperCoordinator;
use fader_node::{ChainId, ClusterStatus};
use fader_services::ErrorCode;

use crate::cluster::init::Place;
use crate::cluster::mode::{control, folder_help};
use crate::failure;
use crate::keys::FIRST_ACCOUNT;
use crate::output;

const EXAMPLES: &str = "\
A running server is asked with --data (or ./fader-data): it knows what ZooKeeper says and what its
own members wait for, and asks the other members' nodes for the rest. With --zookeeper and without
--data ZooKeeper alone is asked, from any machine and though no server runs.

Examples:
  fader cluster diagnose --data /var/lib/fader              all chains
  fader cluster diagnose 3 --data /var/lib/fader            chain 3
  fader cluster diagnose carts --data /var/lib/fader        the chain that has the domain carts
  fader cluster diagnose --zookeeper zk1,zk2,zk3            what ZooKeeper knows of all chains";

/// Which chain, and who is asked.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DiagnoseOptions {
    /// The number of a chain, or a domain; all chains without.
    #[arg(value_name = "CHAIN|DOMAIN")]
    of: Option<String>,

    #[arg(help = folder_help())]
    #[arg(long, env = "FADER_DATA", value_name = "FOLDER")]
    data: Option<PathBuf>,

    /// Whose domain: twelve digits.
    #[arg(long, default_value = FIRST_ACCOUNT)]
    account: String,

    #[command(flatten)]
    place: Place,
}

/// Says what chains wait for.
pub(crate) async fn diagnose(options: &DiagnoseOptions) -> Result<ExitCode> {
    let of = options.of.as_deref();
    let number = of.and_then(|of| of.parse().ok());
    let text = match options.place.is_named() && options.data.is_none() {
        true => {
            let only = match (of, number) {
                (Some(domain), None) => {
                    return failure::invalid(format_args!(
                        "only a server knows where the domain {domain} is: name its folder with \
                         --data"
                    ));
                }
                (_, number) => number.map(ChainId),
            };
            let place = options.place.settings()?;
            let looking = move || ZooKeeperCoordinator::look_closely(&place);
            let status: ClusterStatus = tokio::task::spawn_blocking(looking).await??;
            let why = status.wait_reports(only);
            if why.is_empty() {
                return failure::fail(ErrorCode::NotFound, "there is no such chain");
            }
            why.iter().map(ToString::to_string).collect()
        }
        false => {
            let of = match (of, number) {
                (None, _) => WaitScope::All,
                (Some(_), Some(number)) => WaitScope::Chain(number),
                (Some(domain), None) => WaitScope::Domain(&options.account, domain),
            };
            let server = control(options.data.as_deref())?;
            server.wait_reports(of).await?.concat()
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
