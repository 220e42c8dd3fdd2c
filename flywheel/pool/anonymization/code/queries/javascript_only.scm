(formal_parameters (identifier) @var)
(class_heritage (identifier) @base)
(class_heritage (member_expression property: (property_identifier) @base))
(field_definition property: [(property_identifier) (private_property_identifier)] @field)
