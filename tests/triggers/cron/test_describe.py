"""Expressions as phrases."""

import pytest

from herdbeat.timestamps import parse_zone
from herdbeat.triggers import Cron


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/7 * * * *", "every 7 minutes from :00 to :56 of every hour"),
        ("0 * * * *", "every hour"),
        ("5 * * * *", "every hour at :05"),
        ("5,35 * * * *", "every hour at :05 and :35"),
        ("0 */6 * * *", "every 6 hours"),
        ("15 */6 * * *", "every 6 hours at :15"),
        ("0 9 * * *", "at 09:00 every day"),
        ("0 9 * * 1-5", "at 09:00, Monday to Friday"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30"),
        ("*/10 9-17 * * 1-5", "every 10 minutes from 09:00 to 17:50, Monday to Friday"),
        ("* 9 * * *", "every minute from 09:00 to 09:59"),
        ("*/15 1,3,5 * * *", "every 15 minutes of hours 1, 3 and 5"),
        ("0,20 9-17 * * *", "at :00 and :20 of hours 9 to 17"),
        ("0 1-23/2 * * *", "at :00 of every 2nd hour from 1 to 23"),
        ("30 4 * * SUN", "at 04:30, Sunday"),
        ("0 10 * * 6,0", "at 10:00, Saturday and Sunday"),
        ("0 10 * * 1,3,5", "at 10:00, Monday, Wednesday and Friday"),
        ("0 0 * * FRI#2", "at 00:00, the second Friday of the month"),
        ("0 0 * 6 5L", "at 00:00, the last Friday of June"),
        ("0 0 * * MON-FRI#2", "at 00:00, the second Monday to Friday of the month"),
        ("0 0 1 * *", "at 00:00 on the 1st of the month"),
        ("0 0 1,15 * *", "at 00:00 on the 1st and the 15th of the month"),
        ("0 0 1-7 * *", "at 00:00 on the 1st to the 7th of the month"),
        ("0 0 */2 * *", "at 00:00 on every 2nd day from the 1st to the 31st of the month"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("0 0 LW * *", "at 00:00 on the last weekday of the month"),
        ("0 0 15W * *", "at 00:00 on the weekday nearest the 15th of the month"),
        ("0 0 1 1 *", "at 00:00 on 1 January"),
        ("0 0 1 1,7 *", "at 00:00 on the 1st of January and July"),
        ("0 0 * 6-8 MON", "at 00:00, Monday in June to August"),
        ("0 0 * 6-8 *", "at 00:00 every day in June to August"),
        ("0 0 13 * FRI", "at 00:00 on the 13th of the month or on Friday"),
        ("0 0 13 * +FRI", "at 00:00 on the 13th of the month if it is Friday"),
        ("0 0 13 6 FRI", "at 00:00 on 13 June or on Friday in June"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("15 * * * * *", "every minute, at second 15"),
        ("10,40 * * * * *", "at seconds 10 and 40 of every minute"),
        ("15 30 2 * * *", "at 02:30:15 every day"),
        ("0,30 30 2 * * *", "every 30 seconds of 02:30 every day"),
        ("*/20 */5 * * * *", "every 20 seconds, every 5 minutes"),
        ("@weekly", "at 00:00, Sunday"),
        ("@midnight", "at 00:00 every day"),
    ],
)
def test_an_expression_is_described_as_a_sentence(expression: str, sentence: str) -> None:
    assert Cron.parse(expression, parse_zone("UTC")).describe() == sentence
