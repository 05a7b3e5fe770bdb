# GPU machines: an autoscaling group, spot by default, that grows and shrinks with the workers that ECS is asked to run.
# On a spot notice (2 min) the ECS agent drains the machine: the worker gets SIGTERM, finishes its chunk or hands it back.

data "aws_ssm_parameter" "gpu_image" {
  name = "/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id"
}

resource "aws_launch_template" "gpu" {
  name_prefix            = "${var.name}-gpu-"
  image_id               = data.aws_ssm_parameter.gpu_image.value
  instance_type          = var.gpu_instance_types[0]
  vpc_security_group_ids = [aws_security_group.task.id]
  update_default_version = true

  iam_instance_profile {
    arn = aws_iam_instance_profile.machine.arn
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size           = 200
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }

  user_data = base64encode(<<-EOT
    #!/bin/bash
    cat >> /etc/ecs/ecs.config <<'CONFIG'
    ECS_CLUSTER=${aws_ecs_cluster.farm.name}
    ECS_ENABLE_GPU_SUPPORT=true
    ECS_ENABLE_SPOT_INSTANCE_DRAINING=true
    ECS_CONTAINER_STOP_TIMEOUT=115s
    CONFIG
  EOT
  )
}

resource "aws_autoscaling_group" "gpu" {
  name_prefix           = "${var.name}-gpu-"
  min_size              = 0
  max_size              = var.gpu_workers_max
  vpc_zone_identifier   = var.subnet_ids
  capacity_rebalance    = true
  protect_from_scale_in = true # ECS takes the protection away from machines without tasks

  mixed_instances_policy {
    instances_distribution {
      on_demand_base_capacity                  = var.gpu_on_demand
      on_demand_percentage_above_base_capacity = 0
      spot_allocation_strategy                 = "price-capacity-optimized"
    }

    launch_template {
      launch_template_specification {
        launch_template_id = aws_launch_template.gpu.id
        version            = "$Latest"
      }

      dynamic "override" {
        for_each = var.gpu_instance_types
        content {
          instance_type = override.value
        }
      }
    }
  }

  tag {
    key                 = "AmazonECSManaged"
    value               = "true"
    propagate_at_launch = true
  }

  lifecycle {
    ignore_changes = [desired_capacity]
  }
}

resource "aws_ecs_capacity_provider" "gpu" {
  name = "${var.name}-gpu"

  auto_scaling_group_provider {
    auto_scaling_group_arn         = aws_autoscaling_group.gpu.arn
    managed_termination_protection = "ENABLED"
    managed_draining               = "ENABLED"

    managed_scaling {
      status          = "ENABLED"
      target_capacity = 100
    }
  }
}

resource "aws_ecs_cluster_capacity_providers" "farm" {
  cluster_name       = aws_ecs_cluster.farm.name
  capacity_providers = ["FARGATE", aws_ecs_capacity_provider.gpu.name]
}

resource "aws_ecs_task_definition" "gpu" {
  family                   = "${var.name}-gpu-worker"
  requires_compatibilities = ["EC2"]
  network_mode             = "awsvpc"
  execution_role_arn       = aws_iam_role.start.arn
  task_role_arn            = aws_iam_role.task.arn

  container_definitions = jsonencode([{
    name                 = "gpu-worker"
    image                = var.gpu_image
    command              = ["python", "-m", "farm.worker"]
    essential            = true
    memoryReservation    = 16384
    stopTimeout          = 115
    linuxParameters      = { initProcessEnabled = true, sharedMemorySize = 1024 }
    resourceRequirements = [{ type = "GPU", value = "1" }]
    environment          = [for key, value in local.environment : { name = key, value = value }]
    secrets              = [for key in local.common_secrets : { name = key, valueFrom = aws_secretsmanager_secret.farm[key].arn }]
    logConfiguration     = local.log_configuration["gpu-worker"]
  }])

  depends_on = [aws_secretsmanager_secret_version.farm]
}

resource "aws_ecs_service" "gpu" {
  name                               = "gpu-worker"
  cluster                            = aws_ecs_cluster.farm.id
  task_definition                    = aws_ecs_task_definition.gpu.arn
  desired_count                      = var.gpu_workers
  deployment_minimum_healthy_percent = 0
  deployment_maximum_percent         = 100

  capacity_provider_strategy {
    capacity_provider = aws_ecs_capacity_provider.gpu.name
    weight            = 1
  }

  network_configuration {
    subnets         = var.subnet_ids
    security_groups = [aws_security_group.task.id]
  }

  depends_on = [aws_ecs_cluster_capacity_providers.farm]
}
