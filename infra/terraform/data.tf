# PostgreSQL is the farm's memory: two zones, backups, no deletion by accident. Valkey may be lost without harm.

resource "random_password" "made" {
  for_each = toset(["database", "broker", "api_token", "session", "url", "worker"])
  length   = 40
  special  = false
}

resource "tls_private_key" "permit" {
  algorithm = "ED25519"
}

resource "aws_db_subnet_group" "farm" {
  name_prefix = "${var.name}-"
  subnet_ids  = var.subnet_ids
}

resource "aws_db_instance" "farm" {
  identifier_prefix               = "${var.name}-"
  engine                          = "postgres"
  engine_version                  = "18"
  instance_class                  = var.database_instance_class
  allocated_storage               = 50
  max_allocated_storage           = 500
  storage_type                    = "gp3"
  storage_encrypted               = true
  db_name                         = "farm"
  username                        = "farm"
  password                        = random_password.made["database"].result
  db_subnet_group_name            = aws_db_subnet_group.farm.name
  vpc_security_group_ids          = [aws_security_group.data.id]
  multi_az                        = true
  backup_retention_period         = 14
  deletion_protection             = true
  skip_final_snapshot             = false
  final_snapshot_identifier       = "${var.name}-final"
  auto_minor_version_upgrade      = true
  performance_insights_enabled    = true
  enabled_cloudwatch_logs_exports = ["postgresql"]
}

resource "aws_elasticache_subnet_group" "farm" {
  name       = var.name
  subnet_ids = var.subnet_ids
}

resource "aws_elasticache_replication_group" "farm" {
  replication_group_id       = var.name
  description                = "Wake-ups of the farm's workers"
  engine                     = "valkey"
  engine_version             = "8.0"
  node_type                  = var.broker_node_type
  num_cache_clusters         = 1
  parameter_group_name       = aws_elasticache_parameter_group.farm.name
  subnet_group_name          = aws_elasticache_subnet_group.farm.name
  security_group_ids         = [aws_security_group.data.id]
  at_rest_encryption_enabled = true
  transit_encryption_enabled = true
  auth_token                 = random_password.made["broker"].result
}

resource "aws_elasticache_parameter_group" "farm" {
  name   = var.name
  family = "valkey8"

  parameter {
    name  = "maxmemory-policy"
    value = "noeviction"
  }
}

locals {
  database_host = aws_db_instance.farm.address
  broker_host   = aws_elasticache_replication_group.farm.primary_endpoint_address

  # The last 32 bytes of an Ed25519 public key in DER; its first 12 are 16 letters of base64.
  permit_public_key = substr(join("", slice(split("\n", trimspace(tls_private_key.permit.public_key_pem)), 1, 2)), 16, -1)

  secrets = {
    FARM_DATABASE_URL   = "postgresql+psycopg://farm:${random_password.made["database"].result}@${local.database_host}/farm?sslmode=require"
    FARM_BROKER_URL     = "rediss://:${random_password.made["broker"].result}@${local.broker_host}:6379/0?ssl_cert_reqs=required"
    FARM_API_TOKEN      = random_password.made["api_token"].result
    FARM_SESSION_SECRET = random_password.made["session"].result
    FARM_URL_SECRET     = random_password.made["url"].result
    FARM_WORKER_SECRET  = random_password.made["worker"].result
    PERMIT_KEY          = tls_private_key.permit.private_key_pem
  }
}

resource "aws_secretsmanager_secret" "farm" {
  for_each    = toset(["FARM_DATABASE_URL", "FARM_BROKER_URL", "FARM_API_TOKEN", "FARM_SESSION_SECRET", "FARM_URL_SECRET", "FARM_WORKER_SECRET", "PERMIT_KEY"])
  name_prefix = "${var.name}-${lower(each.key)}-"
}

resource "aws_secretsmanager_secret_version" "farm" {
  for_each      = aws_secretsmanager_secret.farm
  secret_id     = each.value.id
  secret_string = local.secrets[each.key]
}
