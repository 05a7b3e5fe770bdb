# The farm's programs as ECS services: API, reconciler and CPU workers on Fargate, GPU workers on the machines of gpu.tf.

locals {
  api_port    = 8460
  permit_file = "/tmp/permit.pem"

  environment = {
    FARM_URL               = "https://${var.host_name}"
    FARM_STORE             = "s3://${aws_s3_bucket.farm.id}/farm"
    FARM_S3_REGION         = var.region
    FARM_LOG_FORMAT        = "json"
    FARM_PERMIT_PUBLIC_KEY = local.permit_public_key
    FARM_PERMIT_KEY_PATH   = local.permit_file
    FARM_API_HOST          = "0.0.0.0"
    FARM_API_PORT          = tostring(local.api_port)
    FARM_DRAIN_SECONDS     = "100"
  }

  common_secrets = ["FARM_DATABASE_URL", "FARM_BROKER_URL", "FARM_WORKER_SECRET"]
  signer_secrets = concat(local.common_secrets, ["PERMIT_KEY"])

  # Those who sign permits find the key in a file that is written when they start, and only there.
  with_permit_key = "umask 077; printf '%s' \"$PERMIT_KEY\" > ${local.permit_file}; unset PERMIT_KEY; exec"

  programs = {
    api = {
      command = ["sh", "-c", "${local.with_permit_key} python -m farm.api"]
      secrets = concat(local.signer_secrets, ["FARM_API_TOKEN", "FARM_SESSION_SECRET", "FARM_URL_SECRET"])
      count   = 2
      cpu     = 1024
      memory  = 4096
      disk    = 100
    }
    reconciler = {
      command = ["sh", "-c", "${local.with_permit_key} farm reconciler"]
      secrets = local.signer_secrets
      count   = 1
      cpu     = 512
      memory  = 1024
      disk    = 21
    }
    worker = {
      command = ["python", "-m", "farm.worker"]
      secrets = local.common_secrets
      count   = var.cpu_workers
      cpu     = 4096
      memory  = 16384
      disk    = 200
    }
  }
}

resource "aws_cloudwatch_log_group" "farm" {
  name              = "/facefarm/${var.name}"
  retention_in_days = 30
}

resource "aws_ecs_cluster" "farm" {
  name = var.name

  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_ecs_task_definition" "program" {
  for_each                 = local.programs
  family                   = "${var.name}-${each.key}"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = each.value.cpu
  memory                   = each.value.memory
  execution_role_arn       = aws_iam_role.start.arn
  task_role_arn            = aws_iam_role.task.arn

  ephemeral_storage {
    size_in_gib = each.value.disk
  }

  container_definitions = jsonencode([{
    name             = each.key
    image            = var.cpu_image
    command          = each.value.command
    essential        = true
    stopTimeout      = 120
    linuxParameters  = { initProcessEnabled = true }
    portMappings     = each.key == "api" ? [{ containerPort = local.api_port, protocol = "tcp" }] : []
    environment      = [for key, value in local.environment : { name = key, value = value }]
    secrets          = [for key in each.value.secrets : { name = key, valueFrom = aws_secretsmanager_secret.farm[key].arn }]
    logConfiguration = local.log_configuration[each.key]
  }])

  depends_on = [aws_secretsmanager_secret_version.farm]
}

locals {
  log_configuration = {
    for name in ["api", "reconciler", "worker", "gpu-worker", "migrate"] : name => {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.farm.name
        awslogs-region        = var.region
        awslogs-stream-prefix = name
      }
    }
  }
}

# Run once for each release, before the services are updated: `aws ecs run-task --task-definition <name>-migrate ...`.
resource "aws_ecs_task_definition" "migrate" {
  family                   = "${var.name}-migrate"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = 512
  memory                   = 1024
  execution_role_arn       = aws_iam_role.start.arn
  task_role_arn            = aws_iam_role.task.arn

  container_definitions = jsonencode([{
    name             = "migrate"
    image            = var.cpu_image
    command          = ["farm", "migrate"]
    essential        = true
    secrets          = [{ name = "FARM_DATABASE_URL", valueFrom = aws_secretsmanager_secret.farm["FARM_DATABASE_URL"].arn }]
    logConfiguration = local.log_configuration["migrate"]
  }])
}

resource "aws_ecs_service" "program" {
  for_each        = local.programs
  name            = each.key
  cluster         = aws_ecs_cluster.farm.id
  task_definition = aws_ecs_task_definition.program[each.key].arn
  desired_count   = each.value.count
  launch_type     = "FARGATE"

  network_configuration {
    subnets         = var.subnet_ids
    security_groups = [aws_security_group.task.id]
  }

  dynamic "load_balancer" {
    for_each = each.key == "api" ? [1] : []
    content {
      target_group_arn = aws_lb_target_group.api.arn
      container_name   = "api"
      container_port   = local.api_port
    }
  }

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  depends_on = [aws_lb_listener.api]
}

resource "aws_lb" "api" {
  name_prefix                = "farm-"
  internal                   = true
  load_balancer_type         = "application"
  security_groups            = [aws_security_group.balancer.id]
  subnets                    = var.subnet_ids
  drop_invalid_header_fields = true
  idle_timeout               = 300 # live views are quiet between events
}

resource "aws_lb_target_group" "api" {
  name_prefix          = "farm-"
  target_type          = "ip"
  port                 = local.api_port
  protocol             = "HTTP"
  vpc_id               = var.vpc_id
  deregistration_delay = 30

  health_check {
    path                = "/healthz"
    matcher             = "200"
    interval            = 10
    healthy_threshold   = 2
    unhealthy_threshold = 3
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_lb_listener" "api" {
  load_balancer_arn = aws_lb.api.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.api.arn
  }
}
