//! `fader keys`: access keys, through the running server or straight from its folder.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Read as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fader_client::{Control, Key, NewKey};
use fader_node::{Node, OpenKey, Secret, Settings};
use fader_services::ErrorCode;
use fader_services::catalog::{AccessKey, AccountId, Command, KeyNature, KeyStatus, Rights};
use fader_services::level::{DefaultConsistency, Malformed};

use crate::config::{self, FileOption};
use crate::failure;
use crate::output;

/// The account of the key that the first start creates.
pub(crate) const FIRST_ACCOUNT: &str = "000000000001";

/// The control socket's name in the data folder.
pub(crate) const SOCKET: &str = "control.sock";

/// Bytes of a secret that is taken over. Shorter ones are guessed.
const SECRET_BYTES_MIN: u64 = 8;
const SECRET_BYTES_MAX: u64 = 256;

const EXAMPLES: &str = "\
Works on the server whose data folder is given: through its control socket while it runs, on the
folder itself when it does not.

Examples:
  fader keys list
  fader keys create --note \"nightly import\"
  fader keys create --account 000000000002    an account of its own, with its own domains
  fader keys create --consistency \"eventual; w=2\"    for a client that cannot add headers
  fader keys create --granted-only            with what policies give it, and nothing else
  fader keys import minioadmin < secret       a key of another server, its secret from a file
  fader keys rotate FADER0123456789ABCDEF     a new key; the old one is disabled";

/// Which keys, of which server.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    file: FileOption,

    #[arg(
        long,
        env = "FADER_DATA",
        value_name = "FOLDER",
        global = true,
        help = format!("Folder of the server's data. [default: {}]", config::DATA)
    )]
    data: Option<PathBuf>,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Creates a key; its secret is printed now and never again.
    Create {
        /// Whose requests it signs: twelve digits. A new account begins without domains.
        #[arg(long, default_value = FIRST_ACCOUNT)]
        account: String,
        /// A remark for the list.
        #[arg(long, default_value = "")]
        note: String,
        /// Level of its requests that name none, such as "eventual; w=2". Without it, they have
        /// each API's own promise.
        #[arg(long, value_name = "LEVEL")]
        consistency: Option<DefaultConsistency>,
        /// Only with the rights that policies give it, as
        /// arn:aws:iam::ACCOUNT:user/KEY. Policies are those of queues and
        /// buckets; SimpleDB refuses the key.
        #[arg(long)]
        granted_only: bool,
    },
    /// Takes over a key of another server; its secret is read from standard input.
    Import {
        /// The key's id: 3 to 128 characters of A-Z, a-z, 0-9, _, - and .
        id: String,
        /// Whose requests it signs: twelve digits.
        #[arg(long, default_value = FIRST_ACCOUNT)]
        account: String,
        /// A remark for the list.
        #[arg(long, default_value = "")]
        note: String,
        /// Only with the rights that policies give it.
        #[arg(long)]
        granted_only: bool,
    },
    /// Changes what a key's requests prefer.
    Set {
        /// The key's id.
        id: String,
        /// Level of its requests that name none, such as "eventual; w=2"; `default` for each
        /// API's own promise.
        #[arg(long, value_name = "LEVEL")]
        consistency: Choice,
    },
    /// Lists all keys, without their secrets.
    List,
    /// Stops accepting a key.
    Disable {
        /// The key's id.
        id: String,
    },
    /// Accepts a disabled key again.
    Enable {
        /// The key's id.
        id: String,
    },
    /// Creates a key for the same account and disables this one, in one step.
    Rotate {
        /// The key's id.
        id: String,
    },
}

/// A preference; none is written `default`.
#[derive(Clone)]
struct Choice(Option<DefaultConsistency>);

impl FromStr for Choice {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Choice, Malformed> {
        match text {
            "default" => Ok(Choice(None)),
            text => text.parse().map(|preference| Choice(Some(preference))),
        }
    }
}

/// Where the keys are changed.
enum KeyBackend {
    Server(Control),
    Folder(Node),
}

/// A new key, to be shown once.
struct Shown {
    id: String,
    secret: Secret,
    account: String,
}

/// Carries out one `fader keys` command.
pub(crate) async fn run(options: Options) -> Result<ExitCode> {
    let folder = config::data_folder(&options.file, options.data)?;
    let door = open(folder).await?;
    let result = act(&door, options.verb).await;
    if let KeyBackend::Folder(node) = &door {
        node.close().await;
    }
    output::print(&result?)?;
    Ok(ExitCode::SUCCESS)
}

async fn open(folder: PathBuf) -> Result<KeyBackend> {
    let socket = folder.join(SOCKET);
    if UnixStream::connect(&socket).is_ok() {
        return Ok(KeyBackend::Server(Control::new(socket)));
    }
    // Opening would create the folder, and a typing error in its name would look like no keys.
    if !folder.is_dir() {
        return failure::fail(
            ErrorCode::DataMissing,
            format_args!("there is no data folder {}", folder.display()),
        );
    }
    let opening = tokio::task::spawn_blocking(move || Node::open(Settings::new(folder)));
    match opening.await.context("opening the data folder panicked")? {
        Ok((node, _)) => Ok(KeyBackend::Folder(node)),
        Err(error) if error.code == ErrorCode::DataLocked => {
            let socket = socket.display();
            Err(anyhow::Error::from(error).context(format!(
                "a server runs, but its control socket {socket} cannot be used"
            )))
        }
        Err(error) => Err(error.into()),
    }
}

async fn act(door: &KeyBackend, verb: Verb) -> Result<String> {
    match verb {
        Verb::Create {
            account,
            note,
            consistency,
            granted_only,
        } => {
            let nature = KeyNature {
                preference: consistency,
                rights: rights(granted_only),
            };
            let shown = door.create(&account, None, &note, nature).await?;
            Ok(match granted_only {
                false => shown.text(),
                true => format!("{}policies name  {}\n", shown.text(), shown.arn()),
            })
        }
        Verb::Import {
            id,
            account,
            note,
            granted_only,
        } => {
            let secret = read_secret()?;
            let nature = KeyNature {
                preference: None,
                rights: rights(granted_only),
            };
            let pair = Some((&*id, &secret));
            door.create(&account, pair, &note, nature).await?;
            Ok(format!("{id} is taken over, for account {account}\n"))
        }
        Verb::Set { id, consistency } => {
            door.prefer(&id, consistency.0).await?;
            Ok(match consistency.0 {
                Some(preference) => format!("{id} prefers {preference}\n"),
                None => format!("{id} prefers nothing\n"),
            })
        }
        Verb::Rotate { id } => Ok(door.rotate(&id).await?.text()),
        Verb::List => Ok(table(&door.list().await?)),
        Verb::Disable { id } => {
            door.set_status(&id, KeyStatus::Disabled).await?;
            Ok(format!("{id} is disabled\n"))
        }
        Verb::Enable { id } => {
            door.set_status(&id, KeyStatus::Active).await?;
            Ok(format!("{id} is active\n"))
        }
    }
}

fn rights(is_granted_only: bool) -> Rights {
    match is_granted_only {
        true => Rights::Granted,
        false => Rights::All,
    }
}

/// The secret of a key that is taken over: the first line of standard input.
fn read_secret() -> Result<Secret> {
    if std::io::stdin().is_terminal() {
        note!("the secret of the key, and Enter:");
    }
    let mut line = String::new();
    let read = std::io::stdin().lock().take(SECRET_BYTES_MAX + 2);
    BufReader::new(read)
        .read_line(&mut line)
        .context("reading the secret from standard input")?;
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    let size = line.len() as u64;
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&size) {
        return failure::invalid(format_args!(
            "a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes: this one has {size}"
        ));
    }
    Ok(Secret::new(line))
}

impl KeyBackend {
    async fn create(
        &self,
        account: &str,
        pair: Option<(&str, &Secret)>,
        note: &str,
        nature: KeyNature,
    ) -> Result<Shown> {
        match self {
            KeyBackend::Server(control) => {
                let pair = pair.map(|(id, secret)| (id, secret.reveal()));
                let created = control.create_key(account, pair, note, nature).await?;
                Ok(created.into())
            }
            KeyBackend::Folder(node) => {
                let pair = pair
                    .map(|(id, secret)| (id.to_owned(), Secret::new(secret.reveal().to_owned())));
                let account = AccountId(account.to_owned());
                Ok(node.create_key(&account, pair, note, nature).await?.into())
            }
        }
    }

    async fn prefer(&self, id: &str, preference: Option<DefaultConsistency>) -> Result<()> {
        match self {
            KeyBackend::Server(control) => control.prefer(id, preference).await?,
            KeyBackend::Folder(node) => {
                let id = id.to_owned();
                node.catalog(Command::SetKeyPreference { id, preference })
                    .await?;
            }
        }
        Ok(())
    }

    async fn rotate(&self, id: &str) -> Result<Shown> {
        match self {
            KeyBackend::Server(control) => Ok(control.rotate(id).await?.into()),
            KeyBackend::Folder(node) => Ok(node.rotate_key(id).await?.into()),
        }
    }

    async fn set_status(&self, id: &str, status: KeyStatus) -> Result<()> {
        match (self, status) {
            (KeyBackend::Server(control), KeyStatus::Active) => control.enable(id).await?,
            (KeyBackend::Server(control), KeyStatus::Disabled) => control.disable(id).await?,
            (KeyBackend::Folder(node), status) => {
                node.catalog(Command::SetKeyStatus {
                    id: id.to_owned(),
                    status,
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Key>> {
        match self {
            KeyBackend::Server(control) => Ok(control.keys().await?),
            KeyBackend::Folder(node) => Ok(node.keys().await?.into_iter().map(listed).collect()),
        }
    }
}

fn listed(key: AccessKey) -> Key {
    let status = match key.status {
        KeyStatus::Active => "active",
        KeyStatus::Disabled => "disabled",
    };
    Key {
        id: key.id,
        account: key.account.0,
        status: status.to_owned(),
        created_ms: key.created_ms,
        note: key.note,
        consistency: key
            .preference
            .map_or_else(String::new, |preference| preference.to_string()),
        rights: match key.rights {
            Rights::All => "all".to_owned(),
            Rights::Granted => "granted".to_owned(),
        },
    }
}

impl From<NewKey> for Shown {
    fn from(key: NewKey) -> Self {
        Shown {
            id: key.id,
            secret: Secret::new(key.secret.to_string()),
            account: key.account,
        }
    }
}

impl From<OpenKey> for Shown {
    fn from(open: OpenKey) -> Self {
        Shown {
            id: open.key.id,
            secret: open.secret,
            account: open.key.account.0,
        }
    }
}

impl Shown {
    /// What policies call it.
    fn arn(&self) -> String {
        format!("arn:aws:iam::{}:user/{}", self.account, self.id)
    }

    fn text(&self) -> String {
        format!(
            "account    {}\naccess key {}\nsecret key {}\n",
            self.account,
            self.id,
            self.secret.reveal()
        )
    }
}

fn table(keys: &[Key]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header([
        "access key",
        "account",
        "status",
        "created",
        "consistency",
        "rights",
        "note",
    ]);
    for key in keys {
        let created = i64::try_from(key.created_ms).ok();
        let created = created.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let created = created.map_or(String::new(), |time| time.strftime("%F %T").to_string());
        let note = crate::output::visible(&key.note);
        let consistency = crate::output::visible(&key.consistency);
        table.add_row([
            &key.id,
            &key.account,
            &key.status,
            &created,
            &consistency,
            &crate::output::visible(&key.rights),
            &note,
        ]);
    }
    format!("{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests;
