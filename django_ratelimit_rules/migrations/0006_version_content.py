# Versions hold plain rulesets instead of YAML texts.

import json
import re
from functools import cache

import yaml
from django.db import DatabaseError, migrations, models, transaction

# Both loaders read the YAML of earlier releases identically. The loader of libyaml is faster.
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# YAML takes these characters in quotes only as escapes.
ESCAPED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def to_content(apps, schema_editor):
    """Parse the texts. An unreadable text stays in ``unreadable``."""
    for version in _versions(apps, schema_editor):
        if not version.unreadable:
            continue
        try:
            version.content = _content(version.ruleset, version.unreadable)
            version.unreadable = ""
            with transaction.atomic(using=schema_editor.connection.alias):
                version.save(update_fields=["content", "unreadable"])
        except (ValueError, DatabaseError):
            # PostgreSQL stores no NUL in JSON, though it stores its escape in a string.
            continue


def to_text(apps, schema_editor):
    """Write the contents as YAML, in the form that earlier releases read."""
    for version in _versions(apps, schema_editor):
        if version.content is not None:
            version.unreadable = _text(version.ruleset, version.content)
            version.save(update_fields=["unreadable"])


def _versions(apps, schema_editor):
    """Yield one version at a time: a site has thousands, some of them with hundreds of rules."""
    model = apps.get_model("django_ratelimit_rules", "RulesetVersion")
    versions = model.objects.using(schema_editor.connection.alias)
    for pk in list(versions.order_by("pk").values_list("pk", flat=True)):
        yield versions.get(pk=pk)


def _content(name, text):
    try:
        document = yaml.load(text, Loader)
    except Exception as error:
        # PyYAML raises more than YAMLError for a value that does not fit its tag.
        raise ValueError(text) from error
    if not isinstance(document, dict) or set(document) != {name}:
        raise ValueError(text)
    content = document[name]
    if isinstance(content, list):
        content = {"rules": content}
    if not isinstance(content, dict) or not isinstance(content.get("rules", []), list):
        raise ValueError(text)
    if not all(isinstance(rule, dict) for rule in content.get("rules", [])):
        raise ValueError(text)
    if content.get("mode") is False:
        # A bare off.
        content["mode"] = "off"
    try:
        if json.loads(json.dumps(content, allow_nan=False)) != content:
            raise ValueError(text)
    except (TypeError, RecursionError) as error:
        raise ValueError(text) from error
    return content


def _text(name, content):
    # Earlier releases split texts into rules where a line begins with four blanks and a dash.
    fields = {field: value for field, value in content.items() if field != "rules"}
    if not content:
        return f"{_flow(name)}: {{}}\n"
    lines = [f"{_flow(name)}:"]
    lines += [f"  {_key(field)}: {_flow(value)}" for field, value in fields.items()]
    if "rules" in content:
        # YAML reads a ruleset without any line as null, which is not a ruleset.
        lines.append("  rules:" if content["rules"] else "  rules: []")
    for rule in content.get("rules", []):
        order = sorted(rule, key=lambda field: (field != "name", field != "action"))
        lines += [
            f"    {' ' if number else '-'} {_key(field)}: {_flow(rule[field])}" for number, field in enumerate(order)
        ] or ["    - {}"]
    return "".join(f"{line}\n" for line in lines)


@cache
def _key(field):
    # YAML reads an unquoted on as true. Names of no known field may hold any character.
    return field if re.fullmatch("[a-z_]+", field) and yaml.load(field, Loader) == field else _flow(field)


def _flow(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        # YAML reads 1e+20 as a string and 1.0e+20 as a number.
        return f"{mantissa}{'' if '.' in mantissa or not exponent else '.0'}{exponent}{power}"
    return ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


class Migration(migrations.Migration):

    dependencies = [
        ('django_ratelimit_rules', '0005_partition_by'),
    ]

    operations = [
        migrations.RenameField(
            model_name='rulesetversion',
            old_name='text',
            new_name='unreadable',
        ),
        migrations.AddField(
            model_name='rulesetversion',
            name='content',
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.RunPython(to_content, to_text),
    ]
