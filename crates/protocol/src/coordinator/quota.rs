//! Quotas: a user's limits on bytes in regions and spilled by queues, and on regions. Regions that are lost count until they are removed.

use crate::error::{Error, Result};
use crate::limits::{USER_ATTRIBUTES_LEN_MAX, USER_REGION_COUNT_MAX};
use crate::tenant::who;

/// Refuses `asked` bytes on top of `used` beyond the quota; `None` is no quota.
pub(super) fn check(quota: Option<u64>, uid: u32, used: u64, asked: u64) -> Result<()> {
    match quota {
        Some(limit) if used.checked_add(asked).is_none_or(|sum| sum > limit) => {
            Err(Error::QuotaExceeded { uid, asked, used, limit })
        }
        _ => Ok(()),
    }
}

/// Bytes that may come to `used` within the quota.
pub(super) fn room(quota: Option<u64>, used: u64) -> u64 {
    quota.map_or(u64::MAX, |limit| limit.saturating_sub(used))
}

/// Refuses one more region on top of `owned`: each has a name in the journal, however few bytes it has.
pub(super) fn check_count(uid: u32, owned: u64) -> Result<()> {
    match owned >= USER_REGION_COUNT_MAX {
        true => Err(Error::LimitReached { what: format!("regions of {}", who(uid)), limit: USER_REGION_COUNT_MAX }),
        false => Ok(()),
    }
}

/// Refuses `asked` bytes of attributes on top of `noted`: they take memory of the coordinator, and no byte of a quota.
pub(super) fn check_noted(uid: u32, noted: u64, asked: u64) -> Result<()> {
    match asked > 0 && noted.saturating_add(asked) > USER_ATTRIBUTES_LEN_MAX {
        true => {
            let what = format!("bytes of attributes of all regions of {}", who(uid));
            Err(Error::LimitReached { what, limit: USER_ATTRIBUTES_LEN_MAX })
        }
        false => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    #[test]
    fn no_user_has_all_names_of_a_pool() {
        assert_eq!(check_count(1, USER_REGION_COUNT_MAX - 1), Ok(()));
        assert!(matches!(check_count(1, USER_REGION_COUNT_MAX), Err(Error::LimitReached { .. })));
    }

    #[test]
    fn no_user_fills_the_coordinator_with_attributes() {
        assert_eq!(check_noted(1, USER_ATTRIBUTES_LEN_MAX - 1, 1), Ok(()));
        assert_eq!(check_noted(1, u64::MAX, 0), Ok(()));
        assert!(matches!(check_noted(1, USER_ATTRIBUTES_LEN_MAX, 1), Err(Error::LimitReached { .. })));
    }

    #[test]
    fn the_quota_itself_may_be_used_but_no_byte_more() {
        assert_eq!(check(Some(10), 1, 4, 6), Ok(()));
        assert_eq!(check(Some(10), 1, 4, 7), Err(Error::QuotaExceeded { uid: 1, asked: 7, used: 4, limit: 10 }));
        assert!(check(Some(10), 1, 4, u64::MAX).is_err());
        assert_eq!(check(None, 1, u64::MAX, 1), Ok(()));
        assert_eq!((room(Some(10), 4), room(Some(10), 11), room(None, 11)), (6, 0, u64::MAX));
    }
}
