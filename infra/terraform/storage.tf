# One bucket: the farm's objects under `farm/`, plates that people drop under `inbox/`. A new plate is told to a queue.

resource "aws_s3_bucket" "farm" {
  bucket_prefix = "${var.name}-"
}

resource "aws_s3_bucket_public_access_block" "farm" {
  bucket                  = aws_s3_bucket.farm.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "farm" {
  bucket = aws_s3_bucket.farm.id

  rule {
    bucket_key_enabled = true
    apply_server_side_encryption_by_default {
      sse_algorithm = "aws:kms"
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "farm" {
  bucket = aws_s3_bucket.farm.id

  rule {
    id     = "unfinished-uploads"
    status = "Enabled"
    filter {}
    abort_incomplete_multipart_upload {
      days_after_initiation = 2
    }
  }

  # The farm removes what it no longer needs; this is for what it was never told of.
  rule {
    id     = "forgotten-objects"
    status = "Enabled"
    filter {
      prefix = "farm/jobs/"
    }
    expiration {
      days = var.keep_days
    }
  }
}

data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "TlsOnly"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.farm.arn, "${aws_s3_bucket.farm.arn}/*"]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "farm" {
  bucket = aws_s3_bucket.farm.id
  policy = data.aws_iam_policy_document.bucket.json
}

resource "aws_sqs_queue" "arrivals_dead" {
  name                      = "${var.name}-arrivals-dead"
  sqs_managed_sse_enabled   = true
  message_retention_seconds = 1209600
}

resource "aws_sqs_queue" "arrivals" {
  name                       = "${var.name}-arrivals"
  sqs_managed_sse_enabled    = true
  visibility_timeout_seconds = 120
  message_retention_seconds  = 1209600
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.arrivals_dead.arn
    maxReceiveCount     = 5
  })
}

data "aws_iam_policy_document" "arrivals" {
  statement {
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.arrivals.arn]
    principals {
      type        = "Service"
      identifiers = ["s3.amazonaws.com"]
    }
    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [aws_s3_bucket.farm.arn]
    }
  }
}

resource "aws_sqs_queue_policy" "arrivals" {
  queue_url = aws_sqs_queue.arrivals.id
  policy    = data.aws_iam_policy_document.arrivals.json
}

resource "aws_s3_bucket_notification" "arrivals" {
  bucket = aws_s3_bucket.farm.id

  queue {
    queue_arn     = aws_sqs_queue.arrivals.arn
    events        = ["s3:ObjectCreated:*"]
    filter_prefix = "inbox/"
  }

  depends_on = [aws_sqs_queue_policy.arrivals]
}
