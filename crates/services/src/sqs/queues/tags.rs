//! Tags of queues.

use super::Decided;
use crate::View;
use crate::service::Context;
use crate::sqs::command::{Pairs, Request, TagQueue, UntagQueue};
use crate::sqs::error::{Code, Error};
use crate::sqs::grants;
use crate::sqs::limits::Limits;
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::reply::Reply;

const TAG_KEY_MAX: usize = 128;
const TAG_VALUE_MAX: usize = 256;

/// Adds tags.
pub(crate) fn tag(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &TagQueue,
) -> Decided {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    if command.tags.is_empty() {
        return Err(Error::missing("Tags"));
    }
    let mut settings = queue.settings.clone();
    let tags = &mut settings.tags;
    tags.retain(|(key, _)| command.tags.iter().all(|(it, _)| it != key));
    tags.extend(command.tags.iter().cloned());
    *tags = sorted(std::mem::take(tags));
    check_tags(tags, context.limits)?;
    queue.set(settings);
    Ok((Reply::Done, queue.finish()))
}

/// Removes tags.
pub(crate) fn untag(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &UntagQueue,
) -> Decided {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    if command.keys.is_empty() {
        return Err(Error::missing("TagKeys"));
    }
    let mut settings = queue.settings.clone();
    settings.tags.retain(|(key, _)| !command.keys.contains(key));
    queue.set(settings);
    Ok((Reply::Done, queue.finish()))
}

/// The tags of a queue.
pub(crate) fn tags(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
) -> Result<Reply, Error> {
    let queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    Ok(Reply::Pairs(queue.settings.tags))
}

/// Tags in the order of their keys.
pub(super) fn sorted(mut pairs: Pairs) -> Pairs {
    pairs.sort();
    pairs
}

/// Refuses too many tags, and those that AWS refuses.
pub(super) fn check_tags(tags: &Pairs, limits: &Limits) -> Result<(), Error> {
    let most = limits.tags;
    if most < tags.len() {
        let message = format!("Too many tags added for queue: at most {most} are allowed.");
        return Err(Error::new(Code::InvalidParameterValue, message));
    }
    let is_bad = |(key, value): &&(String, String)| {
        !(1..=TAG_KEY_MAX).contains(&key.chars().count())
            || TAG_VALUE_MAX < value.chars().count()
            || key.to_ascii_lowercase().starts_with("aws:")
    };
    match tags.iter().find(is_bad) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!(
                "Tag keys must be between 1 and 128 characters in length and \
                                   must not begin with aws:, values at most 256: {key}"
            );
            Err(Error::new(Code::InvalidParameterValue, message))
        }
    }
}
