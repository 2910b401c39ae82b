//! `fader dev`: a whole cluster in one process, to see what it does when something goes wrong; and
//! the orders to the one that runs.
//!
//! Deliberately absent: members on other machines; a promise about speed, for all members share one
//! machine and its disk.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{ArgMatches, Args, Subcommand, ValueEnum};
use fader_client::{ClusterStatus, Control};
use fader_node::coordinator::SESSION;
use fader_node::{ClusterSettings, Event, Node};

use crate::cluster::restore;
use crate::failure;
use crate::keys::SOCKET;
use crate::output;
use crate::serve;

mod plan;

use fader_services::ErrorCode;
pub(crate) use plan::time;
use plan::{At, FaultAction, Name, Sides, Step};

/// The folder of a cluster, unless another is named.
pub(crate) const DATA: &str = "./fader-dev";

const EXAMPLES: &str = "\
Members are called n1, n2, …; the first is the head: it decides all strong writes. Reads go to one
member after the other. What happens is told on standard error, such as

  [   5.0s] n2 is killed
  [   7.1s] epoch 2: n1 head, n3 serving (n2 is out)

Try, with the server running in another terminal:
  fader dev                            three members in ./fader-dev, on 127.0.0.1:4566
  fader dev status                     who is head, who serves, who joins
  fader dev kill n1                    the head: writes wait until its lease is over, 2 s
  fader dev restart n1                 it joins behind the others, is filled, and serves
  fader dev pause n2 --for 5s          longer than a session: it is out, then joins again
  fader dev partition n1,n2/n3         n3 can reach neither the others nor the coordinator
  fader dev heal

The same with a plan, each at a time after the start:
  fader dev --kill n1@5s --restart n1@15s
  fader dev --pause n2@5s --for 5s
  fader dev --delay 50ms               members on three continents
  fader dev --partition n1,n2/n3@5s --heal 15s

Takes the flags of `fader serve` too; FADER_… and --config work as there.";

/// A cluster in one process.
#[derive(Args)]
#[group(id = "dev")]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    order: Option<Order>,

    /// How many members the cluster has.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=7))]
    nodes: u8,

    /// How writes travel: from the head to each member, or from member to member.
    #[arg(long, value_name = "HOW", default_value = "star")]
    wiring: WiringName,

    /// How long each message from member to member takes, one way, as if they were far apart: 50ms.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = plan::time)]
    delay: Duration,

    /// Kills a member at a time: n2@5s.
    #[arg(long, value_name = "MEMBER@TIME")]
    kill: Vec<At<Name>>,

    /// Starts a killed member at a time: n2@15s.
    #[arg(long, value_name = "MEMBER@TIME")]
    restart: Vec<At<Name>>,

    /// Pauses a member at a time: n2@5s.
    #[arg(long, value_name = "MEMBER@TIME")]
    pause: Vec<At<Name>>,

    /// How long a pause lasts.
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = plan::time)]
    pause_time: Duration,

    /// Partitions the members at a time: n1,n2/n3@5s. The coordinator is on the first side.
    #[arg(long, value_name = "SIDES@TIME")]
    partition: Vec<At<Sides>>,

    /// Ends partitions at a time: 15s.
    #[arg(long, value_name = "TIME", value_parser = plan::time)]
    heal: Vec<Duration>,

    #[command(flatten)]
    serve: serve::Options,
}

/// How writes travel.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WiringName {
    /// The head sends to all and commits: two delays a write.
    Star,
    /// Each sends to the next, the last commits: the head sends each write once.
    Chain,
}

/// Which cluster an order is for.
#[derive(Args)]
struct Place {
    /// Folder of the cluster.
    #[arg(long, value_name = "FOLDER", default_value = DATA)]
    data: PathBuf,
}

#[derive(Subcommand)]
enum Order {
    /// Shows who is head, who serves, who joins.
    Status(Place),
    /// Kills a member: it forgets what a process that is killed forgets.
    Kill {
        /// The member, such as n2.
        member: String,
        #[command(flatten)]
        place: Place,
    },
    /// Starts a member that was killed.
    Restart {
        /// The member, such as n2.
        member: String,
        #[command(flatten)]
        place: Place,
    },
    /// Holds a member up for a time, as a process that is stopped and continued.
    Pause {
        /// The member, such as n2.
        member: String,
        /// For how long.
        #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = plan::time)]
        time: Duration,
        #[command(flatten)]
        place: Place,
    },
    /// Cuts the members off from each other: n1,n2/n3. The coordinator is on the first side.
    Partition {
        /// The sides.
        sides: Sides,
        #[command(flatten)]
        place: Place,
    },
    /// Ends a partition.
    Heal(Place),
    /// Goes on with what one member has, when all that have more are lost with their disks.
    Restore {
        /// The member, such as n3.
        member: String,
        /// What others acknowledged beyond it may be lost.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// Runs a cluster, or gives an order to the one that runs.
pub(crate) async fn run(options: Options, matches: &ArgMatches) -> Result<ExitCode> {
    if let Some(order) = options.order {
        carry_out(order).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let start = Instant::now();
    let plan = options.plan();
    let (size, wiring, delay) = (usize::from(options.nodes), options.wiring, options.delay);
    let options = options.serve.with_data(DATA);
    let config = options.config(matches)?;
    if config.membership.member()?.is_some() {
        return failure::invalid(
            "`fader dev` is a whole cluster: a member of one is started with `fader serve`",
        );
    }
    let open = move |member| {
        let settings = ClusterSettings {
            size,
            wiring: wiring.into(),
            session: SESSION,
            delay,
            member,
        };
        Node::open_cluster(settings, move |event| tell(start, &in_words(&event)))
    };
    let follow = move |node: Node| {
        tokio::spawn(async move { plan::follow(&node, plan, |text| tell(start, text)).await });
    };
    serve::serve(&config, options.again(matches), None, open, follow).await
}

impl Options {
    fn plan(&self) -> Vec<Step> {
        let time = self.pause_time;
        let mut steps: Vec<Step> = Vec::new();
        let mut add = |at, deed| steps.push(Step { at, deed });
        for At { what, at } in self.kill.clone() {
            add(at, FaultAction::Kill(what.0));
        }
        for At { what, at } in self.restart.clone() {
            add(at, FaultAction::Restart(what.0));
        }
        for At { what, at } in self.pause.clone() {
            add(at, FaultAction::Pause(what.0, time));
        }
        for At { what, at } in self.partition.clone() {
            add(at, FaultAction::Partition(what));
        }
        for at in self.heal.clone() {
            add(at, FaultAction::Heal);
        }
        steps.sort_by_key(|step| step.at);
        steps
    }
}

/// One line about what happened, on standard error. A missing reader is no matter.
fn tell(start: Instant, text: &str) {
    use std::io::Write;
    let seconds = start.elapsed().as_secs_f64();
    let _ = writeln!(std::io::stderr(), "[{seconds:6.1}s] {text}");
}

/// What happened, in one line.
pub(crate) fn in_words(event: &Event) -> String {
    match event {
        Event::Killed(name) => format!("{name} is killed"),
        Event::Started(name) => format!("{name} starts again"),
        Event::Failed(name, reason, rest) => {
            format!("{name} failed, and begins again after {rest:?}: {reason}")
        }
        Event::Paused(name, time) => format!("{name} is paused for {time:?}"),
        Event::Partitioned(sides) => {
            let sides: Vec<String> = sides.iter().map(|side| side.join(",")).collect();
            format!("partition: {}", sides.join(" / "))
        }
        Event::Damaged(name, reason) => format!("{name} is damaged: {reason}"),
        Event::Replaced(name, aside) => format!(
            "{name} joins with an empty folder; what it had is in {}",
            aside.display()
        ),
        Event::Slow(name) => format!("{name} does not confirm in time: the others do not wait"),
        Event::Differs(name) => {
            format!("{name} differs from the others: it is filled anew")
        }
        Event::Restored(name) => {
            format!("the chain goes on with what {name} has: acknowledged writes may be lost")
        }
        Event::Healed => "the partition ends".to_owned(),
        Event::Epoch {
            epoch,
            members,
            changes,
        } => {
            let members = members.iter().map(|(name, role)| format!("{name} {role}"));
            let members = members.collect::<Vec<_>>().join(", ");
            let why = match changes.is_empty() {
                true => String::new(),
                false => format!(" ({})", changes.join(", ")),
            };
            format!("epoch {epoch}: {members}{why}")
        }
    }
}

async fn carry_out(order: Order) -> Result<()> {
    match order {
        Order::Status(place) => {
            let status = control(&place)?.cluster().await;
            output::print(&table(&status.context("asking for the status")?))
        }
        Order::Kill { member, place } => Ok(control(&place)?.kill(&member).await?),
        Order::Restart { member, place } => Ok(control(&place)?.restart(&member).await?),
        Order::Pause {
            member,
            time,
            place,
        } => Ok(control(&place)?.pause(&member, time).await?),
        Order::Partition { sides, place } => Ok(control(&place)?.partition(&sides.0).await?),
        Order::Heal(place) => Ok(control(&place)?.heal().await?),
        Order::Restore { member, yes, place } => {
            restore::consent(&member, yes)?;
            Ok(control(&place)?.restore(&member).await?)
        }
    }
}

fn control(place: &Place) -> Result<Control> {
    let socket = place.data.join(SOCKET);
    if !socket.exists() {
        return failure::fail(
            ErrorCode::Unavailable,
            format_args!(
                "no cluster runs in {}: start one with `fader dev`, or name its folder with --data",
                place.data.display()
            ),
        );
    }
    Ok(Control::new(socket))
}

fn table(status: &ClusterStatus) -> String {
    let wiring = status.wiring.as_deref().unwrap_or("-");
    let mut text = format!("epoch {}, wiring {wiring}\n", status.epoch);
    text += &restore::status(status.lossy, status.lossy_epoch);
    for member in &status.members {
        let role = member.role.as_deref().unwrap_or("out");
        text += &format!(
            "{:<4} {:<8} {:<8} epoch {:<5} entries {}",
            member.name, member.state, role, member.epoch, member.commit_index
        );
        if 0 < member.side {
            text += &format!("   cut off, side {}", member.side + 1);
        }
        text.push('\n');
    }
    text
}
