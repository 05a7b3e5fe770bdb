variable "name" {
  description = "Name of this deployment, in lower case; part of every resource's name."
  type        = string
  default     = "facefarm"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,19}$", var.name))
    error_message = "Use 2 to 20 lower-case letters, digits and hyphens, starting with a letter."
  }
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "vpc_id" {
  description = "An existing VPC."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets of the VPC, in two availability zones or more, with a way to S3, ECR, Secrets Manager and CloudWatch Logs."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 2
    error_message = "Give at least two subnets."
  }
}

variable "client_cidrs" {
  description = "Addresses that may reach the API's load balancer."
  type        = list(string)
}

variable "certificate_arn" {
  description = "Certificate of the API's host name, in ACM."
  type        = string
}

variable "host_name" {
  description = "The API's host name, for links; point it at the output `api_address`."
  type        = string
}

variable "cpu_image" {
  description = "Image of the Dockerfile's target cpu, with its digest."
  type        = string
}

variable "gpu_image" {
  description = "Image of the Dockerfile's target gpu, with its digest."
  type        = string
}

variable "gpu_workers" {
  description = "How many GPU workers run; each has a machine of its own."
  type        = number
  default     = 1
}

variable "gpu_workers_max" {
  description = "Most GPU machines."
  type        = number
  default     = 4
}

variable "gpu_instance_types" {
  description = "Machines with one NVIDIA GPU, best first; several make spot interruptions rarer."
  type        = list(string)
  default     = ["g6.2xlarge", "g6.4xlarge", "g5.2xlarge", "g5.4xlarge"]
}

variable "gpu_on_demand" {
  description = "How many of the GPU machines are not spot."
  type        = number
  default     = 0
}

variable "cpu_workers" {
  description = "How many CPU workers run; they plan, merge, and render where no GPU does."
  type        = number
  default     = 1
}

variable "database_instance_class" {
  description = "Class of the PostgreSQL instance."
  type        = string
  default     = "db.t4g.medium"
}

variable "broker_node_type" {
  description = "Type of the Valkey node; it carries wake-ups only."
  type        = string
  default     = "cache.t4g.small"
}

variable "keep_days" {
  description = "Days after which every object of a job is removed, deliverables too. The farm's own retention should be shorter."
  type        = number
  default     = 365
}
