"""Names: what each is bound to, in which scope, and what is known of it before anything runs."""
