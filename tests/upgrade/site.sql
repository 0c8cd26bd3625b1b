INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (1, 'fixed', '', '', '', '', '2026-12-01 03:36:27.484419', 1);
INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (2, 'sliding', '', '', '', '', '2026-12-01 03:36:27.500707', 1);
INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (3, 'bucket', '', '', '', '', '2026-12-01 03:36:27.516617', 1);
INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (4, 'distinct', '', '', '', '', '2026-12-01 03:36:27.527588', 1);
INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (5, 'banned', '', '', '', '', '2026-12-01 03:36:27.545607', 1);
INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (6, 'parted', '', '', 'closed', 'user', '2026-12-01 03:36:27.548657', 1);
INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (7, 'search', 'The public search
of all shops: é, ✓', 'dry_run', '', '', '2026-12-01 03:36:27.916005', 5);
INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (9, 'on', '', 'off', '', '', '2026-12-01 03:36:27.597910', 1);
INSERT INTO "django_ratelimit_rules_ruleset" ("id", "name", "description", "mode", "failure_mode", "partition_by", "updated_at", "version") VALUES (10, 'unversioned', '', '', '', '', '2026-12-01 03:36:28.213495', NULL);
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (1, 1, 10, 'per_user', 'limit', '', '{}', '["user"]', 100, 31536000, 'fixed_window', '', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (2, 2, 10, 'per_user', 'limit', '', '{}', '["user"]', 100, 31536000, 'sliding_window', '', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (3, 3, 10, 'per_user', 'limit', '', '{}', '["user"]', 100, 31536000, 'token_bucket', '', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (4, 4, 10, 'names', 'limit', '', '{}', '["ip"]', 100, 31536000, 'fixed_window', 'post.name', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (5, 5, 10, 'per_ip', 'limit', '', '{}', '["ip"]', 3, 31536000, 'fixed_window', '', 31536000, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (6, 6, 10, 'per_user', 'limit', '', '{}', '["user"]', 100, 31536000, 'fixed_window', '', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (13, 7, 10, 'staff', 'skip', '', '{"is_staff": true, "path": {"prefix": ["/api/", "/b c"]}}', '[]', NULL, NULL, 'fixed_window', '', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (14, 7, 20, 'shadow', 'log', '', '{}', '["ip", "post.username|lower"]', 10, 90, 'fixed_window', '', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (15, 7, 30, 'failed', 'limit', '', '{}', '["ip"]', 5, 600, 'fixed_window', '', 900, '{"login": "failed", "status": [401, "5"]}', 60, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (16, 7, 40, 'noted', 'limit', 'it''s: why, not how', '[{"header.x-team": {"eq": 1.0}}, {"query.page": {"eq": 1}}, {"json.on": true}]', '[]', 7, 3600, 'fixed_window', '', NULL, NULL, 80, FALSE, '2999-12-31 21:59:59', 'The search team', 'an incident
    - name: of long ago', 'https://tracker.example/7');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (17, 7, 99, 'bad', 'limit', '', '{"path": {"regex": "("}}', '[]', 1, 60, 'fixed_window', '', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rule" ("id", "ruleset_id", "position", "name", "action", "description", "match", "characteristics", "limit", "period", "algorithm", "count_distinct", "ban_for", "response", "warn_at", "enabled", "expires_at", "owner", "reason", "ticket") VALUES (18, 10, 0, 'all', 'limit', '', '{}', '[]', 5, 60, 'fixed_window', '', NULL, NULL, 80, TRUE, NULL, '', '', '');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (1, 'banned', 1, '2026-12-01 03:36:27.611755', 'ann', 'ratelimit_apply first.yaml', 'day one', 'banned:
  rules:
    - name: per_ip
      characteristics: [ip]
      limit: 3
      period: 365d
      ban_for: 365d
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (2, 'bucket', 1, '2026-12-01 03:36:27.612623', 'ann', 'ratelimit_apply first.yaml', 'day one', 'bucket:
  rules:
    - name: per_user
      characteristics: [user]
      limit: 100
      period: 365d
      algorithm: token_bucket
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (3, 'distinct', 1, '2026-12-01 03:36:27.624024', 'ann', 'ratelimit_apply first.yaml', 'day one', 'distinct:
  rules:
    - name: names
      characteristics: [ip]
      limit: 100
      period: 365d
      count_distinct: post.name
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (4, 'fixed', 1, '2026-12-01 03:36:27.624765', 'ann', 'ratelimit_apply first.yaml', 'day one', 'fixed:
  rules:
    - name: per_user
      characteristics: [user]
      limit: 100
      period: 365d
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (5, 'gone', 1, '2026-12-01 03:36:27.629516', 'ann', 'ratelimit_apply first.yaml', 'day one', 'gone:
  rules:
    - name: old
      limit: 1
      period: 1m
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (6, 'on', 1, '2026-12-01 03:36:27.630057', 'ann', 'ratelimit_apply first.yaml', 'day one', '"on":
  mode: "off"
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (7, 'parted', 1, '2026-12-01 03:36:27.630504', 'ann', 'ratelimit_apply first.yaml', 'day one', 'parted:
  failure_mode: closed
  partition_by: user
  rules:
    - name: per_user
      characteristics: [user]
      limit: 100
      period: 365d
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (8, 'search', 1, '2026-12-01 03:36:27.631083', 'ann', 'ratelimit_apply first.yaml', 'day one', 'search:
  description: "The public search\nof all shops: é, ✓"
  mode: dry_run
  rules:
    - name: staff
      action: skip
      match: {is_staff: true, path: {prefix: [/api/, "/b c"]}}
    - name: shadow
      action: log
      characteristics: [ip, post.username|lower]
      limit: 9
      period: 90s
    - name: failed
      characteristics: [ip]
      limit: 5
      period: 10m
      ban_for: 15m
      response: {login: failed, status: [401, "5"]}
      warn_at: 60
    - name: noted
      match: [{header.x-team: {eq: 1.0}}, {query.page: {eq: 1}}, {json.on: true}]
      limit: 7
      period: 1h
      enabled: false
      expires_at: "2999-12-31T21:59:59+00:00"
      description: "it''s: why, not how"
      owner: The search team
      reason: "an incident\n    - name: of long ago"
      ticket: "https://tracker.example/7"
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (9, 'sliding', 1, '2026-12-01 03:36:27.631533', 'ann', 'ratelimit_apply first.yaml', 'day one', 'sliding:
  rules:
    - name: per_user
      characteristics: [user]
      limit: 100
      period: 365d
      algorithm: sliding_window
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (10, 'search', 2, '2026-12-01 03:36:27.834195', 'bob', 'imported a text', '', 'search:
  mode: enforce
  rules:
    - name: only
      characteristics: [ip]
      limit: 1
      period: 1m
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (11, 'search', 3, '2026-12-01 03:36:27.942218', 'ann', 'restored version 1', '', 'search:
  description: "The public search\nof all shops: é, ✓"
  mode: dry_run
  rules:
    - name: staff
      action: skip
      match: {is_staff: true, path: {prefix: [/api/, "/b c"]}}
    - name: shadow
      action: log
      characteristics: [ip, post.username|lower]
      limit: 9
      period: 90s
    - name: failed
      characteristics: [ip]
      limit: 5
      period: 10m
      ban_for: 15m
      response: {login: failed, status: [401, "5"]}
      warn_at: 60
    - name: noted
      match: [{header.x-team: {eq: 1.0}}, {query.page: {eq: 1}}, {json.on: true}]
      limit: 7
      period: 1h
      enabled: false
      expires_at: "2999-12-31T21:59:59+00:00"
      description: "it''s: why, not how"
      owner: The search team
      reason: "an incident\n    - name: of long ago"
      ticket: "https://tracker.example/7"
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (12, 'gone', 2, '2026-12-01 03:36:28.007737', 'bob', 'deleted in the admin', 'nobody asks for it', '');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (13, 'search', 4, '2026-12-01 03:36:28.112489', '', 'found changed, neither by the admin nor by ratelimit_apply', '', 'search:
  description: "The public search\nof all shops: é, ✓"
  mode: dry_run
  rules:
    - name: staff
      action: skip
      match: {is_staff: true, path: {prefix: [/api/, "/b c"]}}
    - name: shadow
      action: log
      characteristics: [ip, post.username|lower]
      limit: 9
      period: 90s
    - name: failed
      characteristics: [ip]
      limit: 5
      period: 10m
      ban_for: 15m
      response: {login: failed, status: [401, "5"]}
      warn_at: 60
    - name: noted
      match: [{header.x-team: {eq: 1.0}}, {query.page: {eq: 1}}, {json.on: true}]
      limit: 7
      period: 1h
      enabled: false
      expires_at: "2999-12-31T21:59:59+00:00"
      description: "it''s: why, not how"
      owner: The search team
      reason: "an incident\n    - name: of long ago"
      ticket: "https://tracker.example/7"
    - name: bad
      match: {path: {regex: "("}}
      limit: 1
      period: 1m
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (14, 'search', 5, '2026-12-01 03:36:28.123738', 'ann', 'saved in the admin', '', 'search:
  description: "The public search\nof all shops: é, ✓"
  mode: dry_run
  rules:
    - name: staff
      action: skip
      match: {is_staff: true, path: {prefix: [/api/, "/b c"]}}
    - name: shadow
      action: log
      characteristics: [ip, post.username|lower]
      limit: 10
      period: 90s
    - name: failed
      characteristics: [ip]
      limit: 5
      period: 10m
      ban_for: 15m
      response: {login: failed, status: [401, "5"]}
      warn_at: 60
    - name: noted
      match: [{header.x-team: {eq: 1.0}}, {query.page: {eq: 1}}, {json.on: true}]
      limit: 7
      period: 1h
      enabled: false
      expires_at: "2999-12-31T21:59:59+00:00"
      description: "it''s: why, not how"
      owner: The search team
      reason: "an incident\n    - name: of long ago"
      ticket: "https://tracker.example/7"
    - name: bad
      match: {path: {regex: "("}}
      limit: 1
      period: 1m
');
INSERT INTO "django_ratelimit_rules_rulesetversion" ("id", "ruleset", "number", "created_at", "user", "action", "reason", "text") VALUES (15, 'broken', 1, '2026-12-01 03:36:28.182525', 'eve', 'restored a backup', '', 'broken: {[');
