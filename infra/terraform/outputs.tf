output "api_address" {
  description = "Point `host_name` here."
  value       = aws_lb.api.dns_name
}

output "bucket" {
  description = "Plates go under `inbox/`."
  value       = aws_s3_bucket.farm.id
}

output "arrivals_queue" {
  description = "Queue that hears of new plates."
  value       = aws_sqs_queue.arrivals.id
}

output "api_token_secret" {
  description = "Secret that holds the API's bearer token."
  value       = aws_secretsmanager_secret.farm["FARM_API_TOKEN"].arn
}

output "migrate_task" {
  description = "Task that brings the database to the release's schema."
  value       = aws_ecs_task_definition.migrate.arn
}
