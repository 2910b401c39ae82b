//! The commands that only read a job: `status`, `list`, `explain` and `logs`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use fader_client::Access;

use super::{Explain, LOOK, Status, definition, machine, of_job, output_of, registered, show};
use crate::cloud::Where;
use crate::output::{self, visible};

pub(super) async fn status(options: &Status) -> Result<ExitCode> {
    let (output, register) = registered(&options.at, Access::Read).await?;
    let output = of_job(&output, &register).await?;
    loop {
        let status = output.status().await?.context("the register is gone")?;
        let text = match options.json {
            true => format!("{}\n", serde_json::to_string(&status)?),
            false => show::status(&status),
        };
        let cost = match &status.success {
            Some(success) if !options.json => show::cost(success)?,
            _ => String::new(),
        };
        output::print(&(text + &cost))?;
        let is_over = status.success.is_some() || status.register.state.is_end();
        if !options.watch || is_over {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(LOOK).await;
    }
}

pub(super) async fn list(at: &Where) -> Result<ExitCode> {
    let url = definition::url(&at.url)?;
    let cloud = fader_client::open(&url, &at.services.options(Access::Read)).await?;
    let mut table = output::table(["output", "job", "state", "program"]);
    for (folder, register) in fader_mapreduce::registers(&cloud).await? {
        table.add_row([
            visible(&folder),
            register.job.to_string(),
            show::state(register.state).to_owned(),
            visible(&register.definition.program.name),
        ]);
    }
    output::print(&format!("{}\n", table.trim_fmt()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn explain(options: &Explain) -> Result<ExitCode> {
    let book = show::book(&options.prices)?;
    if options.definition.input.is_empty() {
        let url = definition::url(&options.what)?;
        let cloud = fader_client::open(&url, &options.services.options(Access::Read)).await?;
        let output = output_of(cloud, Access::Read);
        let register = output.register().await?;
        let register = register.context("no job was ever started there")?;
        let output = of_job(&output, &register).await?;
        let status = output.status().await?.context("the register is gone")?;
        let partitions = output.partitions(&status.register).await?;
        output::print(&show::after(&status, partitions.as_deref(), &book))?;
        return Ok(ExitCode::SUCCESS);
    }
    let definition = options.definition.of(&options.what, &[])?;
    let inputs = machine::Folders::new(&fader_cloud::Meter::default());
    let forecast = fader_mapreduce::forecast(&definition, &inputs).await?;
    output::print(&show::before(&definition, &forecast, &book))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn logs(at: &Where) -> Result<ExitCode> {
    let (output, register) = registered(at, Access::Read).await?;
    let output = of_job(&output, &register).await?;
    let status = output.status().await?.context("the register is gone")?;
    let mut text = String::new();
    if !register.reason.is_empty() {
        text.push_str(&format!("{}\n", visible(&register.reason)));
    }
    for reason in status.reasons.values() {
        text.push_str(&format!("{}\n", visible(reason)));
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
